#include "policy.h"

#include "../lib/functions.h"
#include "../lib/rng.h"

// Uniform with limit 1 / sqrt(inputs), biases too: an untrained policy prefers one action everywhere.
void policy_initialize(parameters *p, uint64_t seed) {
    rng r = rng_start(seed, 0);
    for (int i = 0; i < INPUTS; i++)
        for (int h = 0; h < HIDDEN; h++) p->w1[i][h] = rng_uniform(&r, 0.5f);
    for (int h = 0; h < HIDDEN; h++) p->b1[h] = rng_uniform(&r, 0.5f);
    for (int h = 0; h < HIDDEN; h++)
        for (int a = 0; a < ACTIONS; a++) p->w2[h][a] = rng_uniform(&r, 0.25f);
    for (int a = 0; a < ACTIONS; a++) p->b2[a] = rng_uniform(&r, 0.25f);
}

policy policy_of(const parameters *p) {
    policy made = {.layers = p, .b = p->b2[1] - p->b2[0]};
    for (int h = 0; h < HIDDEN; h++) made.w[h] = p->w2[h][1] - p->w2[h][0];
    return made;
}

float policy_preference(const policy *p, const float *observation, float *hidden) {
    const parameters *l = p->layers;
    float sums[HIDDEN];
    for (int h = 0; h < HIDDEN; h++) sums[h] = l->b1[h];
    for (int i = 0; i < INPUTS; i++)
        for (int h = 0; h < HIDDEN; h++) sums[h] += observation[i] * l->w1[i][h];
    for (int h = 0; h < HIDDEN; h++) hidden[h] = tanh_float(sums[h]);

    // Four sums side by side, then together: an order of its own, but always the same.
    float lane[4] = {0};
    for (int h = 0; h < HIDDEN; h += 4)
        for (int k = 0; k < 4; k++) lane[k] += hidden[h + k] * p->w[h + k];
    return p->b + ((lane[0] + lane[1]) + (lane[2] + lane[3]));
}

// e^b / (e^a + e^b) = (1 + tanh((b - a) / 2)) / 2
float policy_probability(float preference) { return 0.5f + 0.5f * tanh_float(0.5f * preference); }

void policy_backward(const policy *p, slopes *restrict sum, const float *restrict observation, int action,
                     float scale) {
    float hidden[HIDDEN], dsums[HIDDEN];
    float probability = policy_probability(policy_preference(p, observation, hidden));
    float dpreference = scale * (probability - (action == 1 ? 1 : 0));
    for (int h = 0; h < HIDDEN; h++) dsums[h] = dpreference * p->w[h] * (1 - hidden[h] * hidden[h]);
    for (int i = 0; i < INPUTS; i++)
        for (int h = 0; h < HIDDEN; h++) sum->w1[i][h] += observation[i] * dsums[h];
    for (int h = 0; h < HIDDEN; h++) sum->b1[h] += dsums[h];
    for (int h = 0; h < HIDDEN; h++) sum->w[h] += dpreference * hidden[h];
    sum->b += dpreference;
}

parameters gradient_of(const slopes *sum) {
    parameters gradient = {.b2 = {-sum->b, sum->b}};
    for (int i = 0; i < INPUTS; i++)
        for (int h = 0; h < HIDDEN; h++) gradient.w1[i][h] = sum->w1[i][h];
    for (int h = 0; h < HIDDEN; h++) {
        gradient.b1[h] = sum->b1[h];
        gradient.w2[h][0] = -sum->w[h];
        gradient.w2[h][1] = sum->w[h];
    }
    return gradient;
}
