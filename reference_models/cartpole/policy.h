// 4 observations -> 16 hidden units (tanh) -> 2 actions (softmax), 114 weights in one block.
#ifndef CARTPOLE_POLICY_H
#define CARTPOLE_POLICY_H

#include <stdint.h>

enum { INPUTS = 4, HIDDEN = 16, ACTIONS = 2 };

// The weight file as it stands; a gradient has the same layout.
typedef struct {
    float w1[INPUTS][HIDDEN];
    float b1[HIDDEN];
    float w2[HIDDEN][ACTIONS];
    float b2[ACTIONS];
} parameters;

enum { WEIGHTS = INPUTS * HIDDEN + HIDDEN + HIDDEN * ACTIONS + ACTIONS, WEIGHT_BYTES = 4 * WEIGHTS };
_Static_assert(sizeof(parameters) == WEIGHT_BYTES, "no padding");

// Of two actions a softmax sees only how much more it likes the second: the difference of the logits.
typedef struct {
    const parameters *layers;
    float w[HIDDEN];  // second layer's weights of action 1 minus those of action 0
    float b;
} policy;

void policy_initialize(parameters *p, uint64_t seed);

policy policy_of(const parameters *p);  // must be made again when the weights have changed

// Logit of action 1 minus logit of action 0; keeps the hidden units (HIDDEN).
float policy_preference(const policy *p, const float *observation, float *hidden);

// Softmax's probability of action 1, between 2e-8 and 1 - 6e-8.
float policy_probability(float preference);

// A gradient while it is summed up: by the difference of the logits, like the policy.
typedef struct {
    float w1[INPUTS][HIDDEN];
    float b1[HIDDEN];
    float w[HIDDEN];
    float b;
} slopes;

// Adds to `sum` the gradient of -scale * log(probability of `action`) at one observation (INPUTS).
void policy_backward(const policy *p, slopes *restrict sum, const float *restrict observation, int action, float scale);

parameters gradient_of(const slopes *sum);

#endif
