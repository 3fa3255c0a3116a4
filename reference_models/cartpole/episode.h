// One episode: who plays it, what is kept of it.
#ifndef CARTPOLE_EPISODE_H
#define CARTPOLE_EPISODE_H

#include "environment.h"
#include "policy.h"

typedef struct {
    uint32_t steps;  // 1 to MOST_STEPS; also the return, as each step earns 1
    bool fell;       // else the limit cut it
    float observations[MOST_STEPS][INPUTS];
    uint8_t actions[MOST_STEPS];
} episode;

// Plays unit `unit` of the assignment with this seed, drawing each action by its probability. An episode is
// a function of these three, so that neither batches nor other episodes matter to it.
void episode_play(episode *e, const policy *p, uint64_t seed, uint64_t unit);

// The same from the same start with the likelier action at each step.
void episode_play_greedily(episode *e, const policy *p, uint64_t seed, uint64_t unit);

#endif
