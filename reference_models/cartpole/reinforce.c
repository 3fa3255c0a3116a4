#include "reinforce.h"

#define DISCOUNT 0.99

void learner_start(learner *l) {
    l->optimizer = (adam){.mean = l->mean, .square = l->square};
    adam_start(&l->optimizer, WEIGHTS);
}

// (MOST_STEPS + 1): the discounted return of a step before a fall, by how many rewards are still to come.
typedef double return_table[MOST_STEPS + 1];

static void fill(return_table table) {
    table[0] = 0;
    for (int left = 1; left <= MOST_STEPS; left++) table[left] = 1 + DISCOUNT * table[left - 1];
}

// An episode that the limit cut counts on as if the pole stood forever: the limit is no fault of the policy's,
// and a batch without a fall, whose returns are all the same, then teaches nothing instead of noise.
static double return_of(const return_table table, const episode *e, uint32_t step) {
    return e->fell ? table[e->steps - step] : 1 / (1 - DISCOUNT);
}

typedef struct {
    double mean, deviation;
    uint64_t steps;
} spread;

static spread spread_of(const return_table table, const episode *batch, uint32_t count) {
    spread all = {0};
    for (uint32_t i = 0; i < count; i++) all.steps += batch[i].steps;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t t = 0; t < batch[i].steps; t++) all.mean += return_of(table, &batch[i], t);
    all.mean /= (double)all.steps;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t t = 0; t < batch[i].steps; t++) {
            double above = return_of(table, &batch[i], t) - all.mean;
            all.deviation += above * above;
        }
    all.deviation = __builtin_sqrt(all.deviation / (double)all.steps);
    return all;
}

parameters policy_gradient(const parameters *weights, const episode *batch, uint32_t count) {
    return_table table;
    fill(table);
    spread all = spread_of(table, batch, count);
    policy p = policy_of(weights);
    slopes sum = {0};
    // Returns differ by tenths or not at all; 1e-3 keeps the rounding of equal ones from being blown up.
    double scale = 1 / ((all.deviation + 1e-3) * (double)all.steps);
    for (uint32_t i = 0; i < count; i++) {
        const episode *e = &batch[i];
        for (uint32_t t = 0; t < e->steps; t++) {
            double advantage = return_of(table, e, t) - all.mean;
            policy_backward(&p, &sum, e->observations[t], e->actions[t], (float)(scale * advantage));
        }
    }
    return gradient_of(&sum);
}

void learner_update(learner *l, parameters *weights, const episode *batch, uint32_t count, float rate) {
    parameters gradient = policy_gradient(weights, batch, count);
    adam_step((float *)weights, &l->optimizer, (const float *)&gradient, rate, WEIGHTS);
}
