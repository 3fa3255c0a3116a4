#include "reinforce.h"

static const double DISCOUNT = 0.99;

void learner_start(learner *l) {
    l->optimizer = (adam){.mean = l->mean, .square = l->square};
    adam_start(&l->optimizer, WEIGHTS);
}

// (MOST_STEPS + 1): the discounted return of a step by how many rewards are still to come.
static void discounted_returns(double *returns) {
    returns[0] = 0;
    for (int left = 1; left <= MOST_STEPS; left++) returns[left] = 1 + DISCOUNT * returns[left - 1];
}

typedef struct {
    double mean, deviation;
    uint64_t steps;
} spread;

static spread spread_of(const double *returns, const episode *batch, uint32_t count) {
    double sum = 0, squares = 0;
    uint64_t steps = 0;
    for (uint32_t i = 0; i < count; i++, steps += batch[i - 1].steps)
        for (uint32_t left = batch[i].steps; left > 0; left--) sum += returns[left];
    double mean = sum / (double)steps;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t left = batch[i].steps; left > 0; left--)
            squares += (returns[left] - mean) * (returns[left] - mean);
    return (spread){mean, __builtin_sqrt(squares / (double)steps), steps};
}

void policy_gradient(const parameters *weights, const episode *batch, uint32_t count, parameters *gradient) {
    double returns[MOST_STEPS + 1];
    discounted_returns(returns);
    spread all = spread_of(returns, batch, count);
    policy p = policy_of(weights);
    *gradient = (parameters){0};
    for (uint32_t i = 0; i < count; i++) {
        const episode *e = &batch[i];
        for (uint32_t t = 0; t < e->steps; t++) {
            double advantage = (returns[e->steps - t] - all.mean) / (all.deviation + 1e-8);
            policy_backward(&p, gradient, e->observations[t], e->actions[t], (float)(advantage / (double)all.steps));
        }
    }
}

void learner_update(learner *l, parameters *weights, const episode *batch, uint32_t count, float rate) {
    parameters gradient;
    policy_gradient(weights, batch, count, &gradient);
    adam_step((float *)weights, &l->optimizer, (const float *)&gradient, rate, WEIGHTS);
}
