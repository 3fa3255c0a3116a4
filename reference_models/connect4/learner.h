// Learning from turns: Adam on the cross-entropy between what the network says of a move and what it should say.
#ifndef CONNECT4_LEARNER_H
#define CONNECT4_LEARNER_H

#include "../lib/nn.h"
#include "selfplay.h"

typedef struct {
    adam optimizer;
    float mean[WEIGHTS], square[WEIGHTS];
    parameters gradient;
} learner;

void learner_start(learner *l);  // as after loadModel: the optimizer remembers nothing

typedef struct {
    double squares;  // of the differences between values and targets
    uint64_t moves;
} error_sum;

// One step on the turns at `count` indices, mirrored or not as `random` says. All of their moves weigh the same.
void learner_step(learner *l, parameters *weights, const turn *turns, const uint32_t *indices, uint32_t count,
                  float rate, rng *random, error_sum *total);

#endif
