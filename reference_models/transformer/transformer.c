// The base module `transformer`: continues text. The operations of Weei WASM ABI 1; sizes, defaults and vocabulary come
// from its configuration.
//
// Memory does not depend on the batch: records go through the network in tiles of R = max(T, 256) rows, and a batch's
// gradient is collected tile by tile. With P parameters, W = max(H, 3 D) and n records, in bytes:
//
//   the host's     weights 4 P, chunk, requests of at most 1,024 each
//   training       order 4 n, gradient 4 P, AdamW's means 8 P (none with SGD)
//   a tile         4 (R (L (6 D + H) + 4 D + 2 W) + 128 (2 D + V) + 2 T (T + 7) + 8 max(T, D / heads) + 8 max(R, W, V))
//                  and 24 R + 20 L + 128 of small arrays
//   prediction     10 of each byte of text, 64 of each token of the vocabulary at most
//
// each part rounded up to 16. TransformerArchitecture.memory_bytes of the generator counts the same, and a test trains
// with that and not with a page less.
#include "../lib/functions.h"
#include "../lib/rng.h"
#include "../lib/tokens.h"
#include "dataset.h"
#include "generate.h"
#include "text.h"

enum { STEPS_PER_REPORT = 8, MOST_TEMPERATURE = 10, DEFAULT_TOKENS = 64, DEFAULT_TOP_K = 40 };
static const double DEFAULT_TEMPERATURE = 0.8;

typedef struct {
    config source;
    sizes s;
    uint32_t parameters;
    double learning_rate, weight_decay, clip, beta1, beta2, epsilon;
    bool adamw;
    int64_t end_token;
} model;

static float *weights;  // (parameters), the host's buffer since loadModel; NULL = none
static float *initial;  // what createInitialWeights returned last; NULL = nothing
static char *answer;    // what predict returned last, of answer_bytes; NULL = nothing
static uint32_t answer_bytes;

enum { MOST_CONTEXT = 16384, MOST_WIDTH = 65536, MOST_LAYERS = 256, MOST_VOCABULARY = 65536 };

static bool read_size(const config *c, uint32_t index, const char *name, uint32_t minimum, uint32_t maximum, int *out) {
    uint32_t value;
    if (!config_integer(c, index, name, minimum, maximum, &value)) return false;
    *out = (int)value;
    return true;
}

static bool read_sizes(const config *c, sizes *s) {
    return read_size(c, 0, "vocabulary size", 2, MOST_VOCABULARY, &s->vocabulary) &&
           read_size(c, 1, "context", 1, MOST_CONTEXT, &s->context) &&
           read_size(c, 2, "layers", 1, MOST_LAYERS, &s->layers) &&
           read_size(c, 3, "heads", 1, MOST_WIDTH, &s->heads) &&
           read_size(c, 4, "width", 1, MOST_WIDTH, &s->width) &&
           read_size(c, 5, "hidden width", 1, 4 * MOST_WIDTH, &s->hidden);
}

static bool read_defaults(const config *c, model *m) {
    uint32_t optimizer;
    double end_token;
    if (!config_number(c, 6, "learning rate", 1e-9, 100, &m->learning_rate)) return false;
    if (!config_number(c, 7, "weight decay", 0, 100, &m->weight_decay)) return false;
    if (!config_number(c, 8, "gradient clip norm", 0, 1e9, &m->clip)) return false;
    if (!config_integer(c, 9, "optimizer", 0, 1, &optimizer)) return false;
    if (!config_number(c, 10, "beta1", 0, 0.9999999, &m->beta1)) return false;
    if (!config_number(c, 11, "beta2", 0, 0.9999999, &m->beta2)) return false;
    if (!config_number(c, 12, "epsilon", 1e-15, 1, &m->epsilon)) return false;
    if (!config_number(c, 13, "end token", -1, m->s.vocabulary - 1.0, &end_token)) return false;
    m->adamw = optimizer == 1;
    m->end_token = (int64_t)end_token;
    return true;
}

static bool model_open(model *m) {
    if (!config_load(&m->source, CONFIG_TRANSFORMER)) return false;
    if (!read_sizes(&m->source, &m->s) || !read_defaults(&m->source, m)) return false;
    if (m->s.width % m->s.heads != 0)
        return weei_fail("The configuration's width is %g, allowed: multiples of %g heads.", (double)m->s.width,
                         (double)m->s.heads);
    uint64_t parameters = network_parameters(&m->s);
    m->parameters = (uint32_t)parameters;
    return parameters < UINT32_MAX / sizeof(float) ||
           weei_fail("The configuration has %g parameters, more than memory can hold.", (double)parameters);
}

static uint32_t weight_bytes(const model *m) { return m->parameters * (uint32_t)sizeof(float); }

static void release(void *block, uint32_t bytes) {
    if (block != NULL) weei_free(address_of(block), bytes);
}

// One block of the heap. NULL with the error set.
static void *allocate(uint64_t bytes, const char *what) {
    uint32_t address = bytes > UINT32_MAX ? 0 : weei_alloc((uint32_t)bytes);
    if (address == 0) weei_fail("out of memory: %s needs %g bytes", what, (double)bytes);
    return address == 0 ? NULL : at_address(address);
}

LONG_OPERATION(getModelInfo) {
    (void)request;
    model m;
    return model_open(&m) && config_write_info(&m.source, result);
}

WEEI_OPERATION(createInitialWeights) {
    model m;
    uint64_t seed;
    if (!model_open(&m) || !weei_seed(request, &seed)) return false;
    if (initial == NULL) initial = allocate(weight_bytes(&m), "a set of weights");
    if (initial == NULL) return false;
    network_initialize(&m.s, initial, seed);
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(initial));
    json_key(result, "bytes");
    json_integer(result, weight_bytes(&m));
    json_close(result, '}');
    return true;
}

static bool all_finite(const float *block, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!is_finite(block[i])) return false;
    return true;
}

// The host's buffer becomes the weights: training works in it and returns it, so nothing is copied.
WEEI_OPERATION(loadModel) {
    model m;
    weei_buffer buffer;
    if (!model_open(&m) || !weei_read_buffer(request, "weights", &buffer)) return false;
    if (buffer.bytes != weight_bytes(&m))
        return weei_fail("weights has %g bytes, this model has %g", (double)buffer.bytes, (double)weight_bytes(&m));
    float *loaded = at_address(buffer.address);
    if (!all_finite(loaded, m.parameters)) return weei_fail("weights holds a value that is not finite");
    if (weights != loaded) release(weights, weight_bytes(&m));
    if (initial != loaded) release(initial, weight_bytes(&m));
    initial = NULL;
    weights = loaded;
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

static bool open_loaded(model *m) {
    return model_open(m) && (weights != NULL || weei_fail("no weights are loaded: call loadModel first"));
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up_weights(const model *m, uint32_t epoch) {
    release(weights, weight_bytes(m));
    weights = NULL;
    return weei_fail("training diverged in local epoch %g: a value is not finite; lower settings.learningRate",
                     (double)epoch);
}

// Sums over records of one epoch or evaluation.
typedef struct {
    token_score tokens;
    uint64_t records, exact;
} score;

static void write_metrics(json_writer *w, const dataset *d, const score *total) {
    json_key(w, "loss");
    json_number(w, total->tokens.loss / (double)total->tokens.targets);
    json_key(w, "accuracy");
    json_number(w, (double)total->tokens.correct / (double)total->tokens.targets);
    if (!d->partial) return;
    json_key(w, "exact");
    json_number(w, (double)total->exact / (double)total->records);
}

static void count_records(const tile *t, score *total) {
    total->records += (uint64_t)t->span_count;
    for (int i = 0; i < t->span_count; i++) total->exact += !t->spans[i].missed;
}

// What training works with, in one block of the heap.
typedef struct {
    const model *m;
    dataset data;
    weei_settings settings;
    step_settings step;
    tile t;
    uint32_t *order;   // (records)
    float *gradient;   // (parameters)
    float *means;      // (2 * parameters), NULL with SGD
    uint64_t processed, total, steps;
} run;

static uint64_t aligned(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

// Places the arrays of a run from `base` on and returns their bytes; NULL only measures.
static uint64_t run_place(run *r, uint8_t *base, bool training) {
    uint64_t order = aligned(4 * (uint64_t)r->data.count), block = training ? aligned(weight_bytes(r->m)) : 0;
    uint64_t means = training && r->m->adamw ? aligned(2 * (uint64_t)weight_bytes(r->m)) : 0;
    if (base != NULL) {
        r->order = (uint32_t *)(void *)base;
        r->gradient = training ? (float *)(void *)(base + order) : NULL;
        r->means = means > 0 ? (float *)(void *)(base + order + block) : NULL;
    }
    uint64_t before = order + block + means;
    return before + tile_place(&r->t, &r->m->s, base == NULL ? NULL : base + before);
}

static uint8_t *run_allocate(run *r, bool training, uint64_t *bytes) {
    *bytes = run_place(r, NULL, training);
    uint8_t *base = allocate(*bytes, training ? "training" : "the evaluation");
    if (base == NULL) return NULL;
    run_place(r, base, training);
    for (uint32_t i = 0; i < r->data.count; i++) r->order[i] = r->data.first + i;
    return base;
}

static void clear(float *at, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) at[i] = 0;
}

// Scores of order[at … end), and for training the gradient of their mean loss over all of these targets.
static void pass(run *r, uint32_t at, uint32_t end, float scale, score *total) {
    while (at < end) {
        at += dataset_load(&r->data, &r->m->s, r->order, at, end, &r->t);
        network_forward(&r->m->s, weights, &r->t, 0);
        network_learn(&r->m->s, weights, r->gradient, &r->t, scale, &total->tokens);
        count_records(&r->t, total);
    }
}

static void train_batch(run *r, uint32_t at, uint32_t end, score *total) {
    uint64_t targets = 0;
    for (uint32_t i = at; i < end; i++) {
        token_record record = dataset_record(&r->data, r->order[i]);
        targets += record.length - record.first_target;
    }
    clear(r->gradient, r->m->parameters);
    pass(r, at, end, 1 / (float)targets, total);
    network_step(&r->m->s, weights, r->means, r->gradient, &r->step);
}

// Each local epoch has its own stream of random numbers and shuffles the order of the one before.
static bool train_epoch(run *r, uint64_t seed, uint32_t epoch, score *total) {
    rng shuffle = rng_start(seed, epoch);
    rng_shuffle(&shuffle, r->order, r->data.count);
    *total = (score){0};
    for (uint32_t at = 0; at < r->data.count;) {
        uint32_t left = r->data.count - at, records = left < r->settings.batch_size ? left : r->settings.batch_size;
        train_batch(r, at, at + records, total);
        if (!is_finite(total->tokens.loss)) return give_up_weights(r->m, epoch);
        at += records;
        r->processed += records;
        r->steps++;
        if (r->steps % STEPS_PER_REPORT != 0 && r->processed < r->total) continue;
        write_metrics(weei_begin_progress(r->processed, r->total, r->steps), &r->data, total);
        weei_send_progress();
    }
    return true;
}

static bool train(run *r, uint64_t seed, json_writer *result) {
    score total;
    if (r->means != NULL) clear(r->means, 2 * (uint64_t)r->m->parameters);
    for (uint32_t epoch = 1; epoch <= r->settings.local_epochs; epoch++)
        if (!train_epoch(r, seed, epoch, &total)) return false;
    if (!all_finite(weights, r->m->parameters)) return give_up_weights(r->m, r->settings.local_epochs);

    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, weight_bytes(r->m));
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &r->data, &total);  // of the last local epoch, while its steps were taken
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r->processed);
    json_key(result, "uniqueExamples");
    json_integer(result, r->data.count);
    json_key(result, "optimizerSteps");
    json_integer(result, r->steps);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(train) {
    model m;
    uint64_t seed, round, bytes;
    if (!open_loaded(&m)) return false;
    run r = {.m = &m, .settings = {.learning_rate = m.learning_rate}};
    if (!dataset_open(request, &m.s, &r.data)) return false;
    if (!weei_read_settings(request, &r.settings) || !weei_seed(request, &seed)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;
    r.total = (uint64_t)r.data.count * r.settings.local_epochs;
    r.step = (step_settings){r.settings.learning_rate, m.weight_decay, m.clip,
                             adamw_start(m.beta1, m.beta2, m.epsilon)};
    uint8_t *base = run_allocate(&r, true, &bytes);
    if (base == NULL) return false;
    bool done = train(&r, seed, result);
    release(base, (uint32_t)bytes);
    return done;
}

WEEI_OPERATION(evaluate) {
    model m;
    score total = {0};
    uint64_t bytes;
    if (!open_loaded(&m)) return false;
    run r = {.m = &m};
    if (!dataset_open(request, &m.s, &r.data)) return false;
    uint8_t *base = run_allocate(&r, false, &bytes);
    if (base == NULL) return false;
    pass(&r, 0, r.data.count, 0, &total);
    release(base, (uint32_t)bytes);
    if (!is_finite(total.tokens.loss)) return weei_fail("the loss is not finite: these weights are of no use");
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &r.data, &total);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, total.records);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(inspectData) {
    model m;
    dataset selected;
    if (!model_open(&m) || !dataset_open(request, &m.s, &selected)) return false;
    json_open(result, '{');
    json_key(result, "exampleCount");
    json_integer(result, selected.count);
    json_close(result, '}');
    return true;
}

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

LONG_OPERATION(predict) {
    model m;
    release(answer, answer_bytes);
    answer = NULL;
    if (!open_loaded(&m)) return false;
    prediction p = {.m = &m};
    if (!read_input(request, &p)) return false;
    if (p.text.bytes > MOST_TEXT_BYTES)
        return weei_fail("input.text has %g bytes, allowed: %g", (double)p.text.bytes, (double)MOST_TEXT_BYTES);
    if (!vocabulary_open(&p.words, m.source.vocab, m.source.vocab_bytes, (uint32_t)m.s.vocabulary)) return false;
    uint64_t bytes = prediction_place(&p, NULL);
    uint8_t *base = allocate(bytes, "the prediction");
    if (base == NULL) return false;
    prediction_place(&p, base);
    uint32_t count;
    bool ended;
    bool done = read_prompt(&p) &&
                generate(&m.s, weights, &p.t, &p.how, p.candidates, p.tokens, &count, &ended) &&
                write_answer(&p, count, ended, result);
    release(base, (uint32_t)bytes);
    return done;
}
