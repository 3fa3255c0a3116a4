#include "generate.h"

#include "../lib/functions.h"

// A token to choose from. Of equal logits the smaller token comes first.
typedef struct {
    double logit;  // then e^((logit - largest) / temperature)
    uint32_t token;
} candidate;

uint64_t generate_scratch(const sizes *s) { return (uint64_t)s->vocabulary * sizeof(candidate); }

static bool comes_first(candidate a, candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Restores the heap below `at`, whose root is the one that comes last.
static void sift_down(candidate *heap, uint32_t at, uint32_t count) {
    candidate moved = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_first(heap[child], heap[child + 1])) child++;
        if (!comes_first(moved, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

// Moves the first `k` of all, in their order, to the front.
static void keep_first(candidate *all, uint32_t count, uint32_t k) {
    for (uint32_t i = k / 2; i-- > 0;) sift_down(all, i, k);
    for (uint32_t i = k; i < count; i++) {
        if (!comes_first(all[i], all[0])) continue;
        all[0] = all[i];
        sift_down(all, 0, k);
    }
    for (uint32_t left = k; left > 1; left--) {
        candidate last = all[0];
        all[0] = all[left - 1];
        all[left - 1] = last;
        sift_down(all, 0, left - 1);
    }
}

static uint32_t choose(candidate *from, uint32_t count, double temperature, rng *r) {
    double sum = 0, top = from[0].logit;
    for (uint32_t i = 1; i < count; i++) top = from[i].logit > top ? from[i].logit : top;
    for (uint32_t i = 0; i < count; i++) sum += from[i].logit = weei_exp((from[i].logit - top) / temperature);
    double left = (double)(rng_next(r) >> 11) * 0x1p-53 * sum;
    for (uint32_t i = 0; i + 1 < count; i++) {
        left -= from[i].logit;
        if (left < 0) return from[i].token;
    }
    return from[count - 1].token;
}

bool choose_token(const sizes *s, const float *logits, double temperature, uint32_t top_k, void *scratch, rng *r,
                  uint32_t *token) {
    candidate *all = scratch;
    uint32_t count = (uint32_t)s->vocabulary;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_finite(logits[i])) return weei_fail("a logit is not finite: these weights are of no use");
        all[i] = (candidate){logits[i], i};
    }
    uint32_t kept = temperature == 0 ? 1 : top_k == 0 || top_k > count ? count : top_k;
    if (kept < count) keep_first(all, count, kept);
    *token = kept == 1 ? all[0].token : choose(all, kept, temperature, r);
    return true;
}

// A full window loses its first token, which moves all others by one position: everything is computed again.
static int make_room(const sizes *s, tile *t) {
    int kept = t->rows;
    if (t->rows == s->context) {
        for (int i = 1; i < t->rows; i++) t->tokens[i - 1] = t->tokens[i];
        t->rows--;
        kept = 0;
    }
    return kept;
}

bool generate(const sizes *s, float *block, tile *t, const generation *g, void *scratch, uint16_t *out,
              uint32_t *count, bool *ended) {
    rng r = rng_start(g->seed, 0);
    int computed = 0;  // rows that need not be computed again
    *ended = false;
    for (*count = 0; *count < g->most_tokens; (*count)++) {
        uint32_t token;
        t->spans[0] = (span){.row = 0, .rows = (uint32_t)t->rows};
        network_forward(s, block, t, computed);
        network_logits(s, block, t, t->rows - 1, 1);
        if (!choose_token(s, t->logits, g->temperature, g->top_k, scratch, &r, &token)) return false;
        if (token == g->end_token) {
            *ended = true;
            return true;
        }
        out[*count] = (uint16_t)token;
        computed = make_room(s, t);
        t->tokens[t->rows++] = (uint16_t)token;
    }
    return true;
}
