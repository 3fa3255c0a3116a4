#include "prediction.h"

#include "../lib/tokens.h"
#include "generate.h"
#include "text.h"

enum { MOST_TEMPERATURE = 10, DEFAULT_TOKENS = 64, DEFAULT_TOP_K = 40 };
static const double DEFAULT_TEMPERATURE = 0.8;

static char *answer;  // what was answered last, of answer_bytes; NULL = nothing
static uint32_t answer_bytes;

// predict: what the request says, and what it works with.
typedef struct {
    const model *m;
    vocabulary words;
    json text;
    generation how;
    tile t;
    uint8_t *plain;     // (text.bytes) the decoded text
    void *encoding;     // (vocabulary_scratch)
    void *candidates;   // (generate_scratch)
    uint16_t *tokens;   // (most_tokens)
} prediction;

static bool has(json object, const char *key) {
    json value;
    return json_member(object, key, &value);
}

static bool read_optional_integer(json object, const char *path, const char *key, uint64_t minimum, uint64_t maximum,
                                  uint32_t *value) {
    uint64_t read;
    if (!has(object, key)) return true;
    if (!weei_integer(object, path, minimum, maximum, &read)) return false;
    *value = (uint32_t)read;
    return true;
}

static bool read_stop(json input, const model *m, int64_t *end_token) {
    json stop;
    *end_token = m->end_token;
    if (!json_member(input, "stop", &stop)) return true;
    if (stop.text[0] != 't' && stop.text[0] != 'f') return weei_fail("input.stop is not true or false");
    if (stop.text[0] == 'f') *end_token = -1;
    return true;
}

static bool read_input(json request, prediction *p) {
    json input;
    generation *how = &p->how;
    uint32_t context = (uint32_t)p->m->s.context;
    how->most_tokens = DEFAULT_TOKENS < context ? DEFAULT_TOKENS : context;
    how->temperature = DEFAULT_TEMPERATURE;
    how->top_k = DEFAULT_TOP_K;
    if (!weei_object(request, "input", &input)) return false;
    if (!json_member(input, "text", &p->text) || p->text.text[0] != '"') return weei_fail("input.text is not a string");
    if (!read_optional_integer(input, "input.maxTokens", "maxTokens", 1, context, &how->most_tokens)) return false;
    if (!read_optional_integer(input, "input.topK", "topK", 0, (uint64_t)p->m->s.vocabulary, &how->top_k)) return false;
    if (has(input, "temperature") &&
        !weei_number(input, "input.temperature", 0, MOST_TEMPERATURE, &how->temperature))
        return false;
    if (has(input, "seed") && !weei_seed_at(input, "input.seed", &how->seed)) return false;
    return read_stop(input, p->m, &how->end_token);
}

static uint64_t prediction_place(prediction *p, uint8_t *base) {
    uint64_t plain = aligned(p->text.bytes), encoding = vocabulary_scratch(&p->words, p->text.bytes);
    uint64_t candidates = aligned(generate_scratch(&p->m->s)), tokens = aligned(2 * (uint64_t)p->how.most_tokens);
    if (base != NULL) {
        p->plain = base;
        p->encoding = base + plain;
        p->candidates = base + plain + encoding;
        p->tokens = (uint16_t *)(void *)(base + plain + encoding + candidates);
    }
    uint64_t before = plain + encoding + candidates + tokens;
    return before + tile_place(&p->t, &p->m->s, base == NULL ? NULL : base + before);
}

// The text's last tokens become the one span of the tile.
static bool read_prompt(prediction *p) {
    uint32_t bytes = text_from_json(p->text, p->plain), count, context = (uint32_t)p->m->s.context;
    const uint32_t *ids = vocabulary_encode(&p->words, p->plain, bytes, p->encoding, &count);
    if (ids == NULL) return false;
    if (count == 0) return weei_fail("input.text is empty");
    uint32_t skipped = count > context ? count - context : 0;
    p->t.span_count = 1;
    p->t.rows = (int)(count - skipped);
    for (uint32_t i = skipped; i < count; i++) p->t.tokens[i - skipped] = (uint16_t)ids[i];
    return true;
}

static void write_text(json_writer *w, const char *text) {
    for (; *text != '\0'; text++) w->text[w->bytes++] = *text;
}

// The answer may be longer than the library's buffer, so it has one of its own, which lives until the next prediction.
static bool write_answer(const prediction *p, uint32_t count, bool ended, json_writer *result) {
    static const char before[] = "{\"output\":{\"text\":\"", after[] = "\",\"tokens\":", stopped[] = ",\"stopped\":";
    const uint32_t around = 128;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length;
        vocabulary_text(&p->words, p->tokens[i], &length);
        bytes += length;
    }
    uint64_t whole = around + (1 + JSON_BYTES_PER_BYTE) * bytes;
    answer = allocate(whole, "the answer");
    if (answer == NULL) return false;
    answer_bytes = (uint32_t)whole;
    // The plain text lies behind the room for its JSON.
    uint8_t *plain = (uint8_t *)answer + whole - bytes;
    for (uint32_t i = 0, at = 0, length; i < count; i++, at += length) {
        const uint8_t *text = vocabulary_text(&p->words, p->tokens[i], &length);
        for (uint32_t b = 0; b < length; b++) plain[at + b] = text[b];
    }
    json_start(result, answer, answer_bytes);
    write_text(result, before);
    result->bytes += text_to_json(plain, (uint32_t)bytes, answer + result->bytes);
    write_text(result, after);
    json_integer(result, count);
    write_text(result, stopped);
    result->comma = false;
    json_string(result, ended ? "end" : "length");
    write_text(result, "}}");
    return true;
}

bool model_predict(const model *m, json request, json_writer *result) {
    release(answer, answer_bytes);
    answer = NULL;
    prediction p = {.m = m};
    if (!read_input(request, &p)) return false;
    if (p.text.bytes > MOST_TEXT_BYTES)
        return weei_fail("input.text has %g bytes, allowed: %g", (double)p.text.bytes, (double)MOST_TEXT_BYTES);
    if (!vocabulary_open(&p.words, m->source.vocab, m->source.vocab_bytes, (uint32_t)m->s.vocabulary)) return false;
    uint64_t bytes = prediction_place(&p, NULL);
    uint8_t *base = allocate(bytes, "the prediction");
    if (base == NULL) return false;
    prediction_place(&p, base);
    uint32_t count;
    bool ended;
    bool done = read_prompt(&p) &&
                generate(&m->s, model_weights, &p.t, &p.how, p.candidates, p.tokens, &count, &ended) &&
                write_answer(&p, count, ended, result);
    release(base, (uint32_t)bytes);
    return done;
}
