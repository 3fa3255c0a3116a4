// Learning from answers whose advantages are known.
#ifndef TEXT_POLICY_LEARNER_H
#define TEXT_POLICY_LEARNER_H

#include "answers.h"
#include "policy.h"

typedef struct {
    const sizes *s;
    tile *t;
    policy_terms terms;
    float sharpness;  // 1 / temperature: the policy is what is sampled from
    float *weight;    // (tile_rows) of targets
    double *loss;     // (tile_rows)
} learner;

typedef struct {
    double gain, kl;  // sums over answers of the means over their tokens
} learned;

// Log-probabilities of the answers' tokens under `block`, into `reference` of each.
void learner_refer(const learner *l, float *block, answer *answers, uint32_t count);

// Adds what the answers gain under `block`, and the gradient of -scale times that to `gradient` unless that is NULL.
// The `first` time the probabilities are those before, and kept.
void learner_pass(const learner *l, float *block, float *gradient, double scale, answer *answers, uint32_t count,
                  bool first, learned *total);

#endif
