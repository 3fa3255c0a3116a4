#include "answers.h"

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Position p of answer i is row p count + i: what is computed next are the last rows, and what lies before them holds
// keys and values.
static void place_token(tile *t, uint32_t position, uint32_t i, uint16_t token) {
    t->tokens[position * (uint32_t)t->span_count + i] = token;
}

static void place_question(tile *t, const answer *answers, uint32_t count) {
    uint32_t question = answers[0].question;
    t->side_by_side = true;
    t->span_count = (int)count;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < question; p++) place_token(t, p, i, answers[i].tokens[p]);
}

static void compute_rows(const sampler *how, uint32_t first, uint32_t positions) {
    tile *t = how->t;
    t->rows = (int)positions * t->span_count;
    for (int i = 0; i < t->span_count; i++) t->spans[i] = (span){.row = (uint32_t)i, .rows = positions};
    network_forward(how->s, how->block, t, (int)first);
    network_logits(how->s, how->block, t, t->rows - t->span_count, t->span_count);
}

// One token for each answer that has not ended; the others repeat their end, which nothing reads.
static bool choose_tokens(const sampler *how, answer *answers, uint32_t count, rng *random, bool *all_ended) {
    *all_ended = true;
    for (uint32_t i = 0; i < count; i++) {
        answer *a = &answers[i];
        uint32_t token = how->end_token;
        if (!a->ended) {
            const float *logits = how->t->logits + (size_t)i * how->s->vocabulary;
            if (!choose_token(how->s, logits, how->temperature, 0, how->candidates, &random[i], &token)) return false;
            a->tokens[a->question + a->length++] = (uint16_t)token;
            a->ended = token == how->end_token;
        }
        *all_ended &= a->ended;
    }
    return true;
}

// Answers that fit the tile together.
static bool sample_together(const sampler *how, answer *answers, uint32_t count, rng *random) {
    tile *t = how->t;
    uint32_t question = answers[0].question, first = 0;
    bool all_ended = false;
    place_question(t, answers, count);
    for (uint32_t made = 0; made < how->longest && !all_ended; made++) {
        compute_rows(how, first, question + made);
        if (!choose_tokens(how, answers, count, random, &all_ended)) return false;
        first = question + made;
        if (made + 1 == how->longest) break;
        for (uint32_t i = 0; i < count; i++)
            place_token(t, first, i, answers[i].tokens[answers[i].question + answers[i].length - 1]);
    }
    return true;
}

bool answers_sample(const sampler *how, uint64_t seed, answer *answers, uint32_t count) {
    rng random[HEAD_ROWS];
    uint32_t question = answers[0].question, rows = question + how->longest - 1;
    uint32_t most = smaller((uint32_t)tile_rows(how->s) / rows, HEAD_ROWS);
    for (uint32_t i = 0; i < count; i++) {
        answers[i].question = question;
        answers[i].length = 0;
        answers[i].ended = false;
        for (uint32_t p = 0; p < question; p++) answers[i].tokens[p] = answers[0].tokens[p];
    }
    bool done = true;
    for (uint32_t at = 0, together; done && at < count; at += together) {
        together = smaller(most, count - at);
        for (uint32_t i = 0; i < together; i++) random[i] = rng_start(seed, at + i);
        done = sample_together(how, answers + at, together, random);
    }
    how->t->side_by_side = false;
    return done;
}
