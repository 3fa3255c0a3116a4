#include "learner.h"

// The part of the answers from `at` on that fits one tile; returns how many these are. Position p reads token p and has
// token p + 1 as its target, if that is of the answer.
static uint32_t load(const learner *l, const answer *answers, uint32_t at, uint32_t count) {
    tile *t = l->t;
    uint32_t begin = at;
    t->rows = t->span_count = t->target_count = 0;
    for (; at < count; at++) {
        const answer *a = &answers[at];
        uint32_t rows = a->question + a->length - 1, index = (uint32_t)t->span_count;
        if ((uint32_t)t->rows + rows > (uint32_t)tile_rows(l->s)) break;
        t->spans[t->span_count++] = (span){.row = (uint32_t)t->rows, .rows = rows};
        for (uint32_t p = 0; p < rows; p++, t->rows++) {
            t->tokens[t->rows] = a->tokens[p];
            if (p + 1 < a->question) continue;
            t->target_row[t->target_count] = (uint32_t)t->rows;
            t->target_span[t->target_count] = index;
            t->target[t->target_count++] = a->tokens[p + 1];
        }
    }
    return at - begin;
}

// The losses of the tile's targets are their log-probabilities with the other sign.
static void find_losses(const learner *l, float *block) {
    token_score score = {0};
    target_options options = {.sharpness = l->sharpness, .loss = l->loss};
    network_forward(l->s, block, l->t, 0);
    network_learn_targets(l->s, block, NULL, l->t, 1, &options, &score);
}

void learner_refer(const learner *l, float *block, answer *answers, uint32_t count) {
    for (uint32_t at = 0, loaded; at < count; at += loaded) {
        const double *loss = l->loss;
        loaded = load(l, answers, at, count);
        find_losses(l, block);
        for (uint32_t i = at; i < at + loaded; i++)
            for (uint32_t p = 0; p < answers[i].length; p++) answers[i].reference[p] = -*loss++;
    }
}

// Of one answer, whose tokens have these losses and get these weights.
static void weigh(const learner *l, answer *a, const double *loss, float *weight, double scale, bool first,
                  learned *total) {
    double gain = 0, kl = 0;
    for (uint32_t p = 0; p < a->length; p++) {
        double now = -loss[p];
        if (first) a->before[p] = now;
        policy_token part = policy_of_token(&l->terms, a->advantage, now, a->before[p], a->reference[p]);
        gain += part.gain;
        kl += part.kl;
        weight[p] = (float)(scale * part.slope / a->length);
    }
    total->gain += gain / a->length;
    total->kl += kl / a->length;
}

// A cross-entropy of weight w has the gradient -w by the log-probability, and so has what is minimised, the gain with
// the other sign, of slope w.
void learner_pass(const learner *l, float *block, float *gradient, double scale, answer *answers, uint32_t count,
                  bool first, learned *total) {
    target_options options = {.sharpness = l->sharpness, .weight = l->weight};
    for (uint32_t at = 0, loaded; at < count; at += loaded) {
        uint32_t target = 0;
        token_score score = {0};
        loaded = load(l, answers, at, count);
        find_losses(l, block);
        for (uint32_t i = at; i < at + loaded; target += answers[i++].length)
            weigh(l, &answers[i], l->loss + target, l->weight + target, scale, first, total);
        if (gradient != NULL) network_learn_targets(l->s, block, gradient, l->t, 1, &options, &score);
    }
}
