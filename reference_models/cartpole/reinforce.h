// The learning rule: REINFORCE on normalized discounted returns, with Adam.
#ifndef CARTPOLE_REINFORCE_H
#define CARTPOLE_REINFORCE_H

#include "../lib/nn.h"
#include "episode.h"

typedef struct {
    float mean[WEIGHTS], square[WEIGHTS];
    adam optimizer;
} learner;

void learner_start(learner *l);

// One step along the mean gradient over all steps of `count` episodes. A step's advantage is its discounted
// return less the mean and divided by the standard deviation of all of them.
void learner_update(learner *l, parameters *weights, const episode *batch, uint32_t count, float rate);

// That gradient, of the loss: mean of -advantage * log(probability of the action).
parameters policy_gradient(const parameters *weights, const episode *batch, uint32_t count);

#endif
