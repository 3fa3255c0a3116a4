// Games for training, and what there is to learn from them.
#ifndef CONNECT4_SELFPLAY_H
#define CONNECT4_SELFPLAY_H

#include "player.h"

// A board that was met, and for each legal move there what the network should say of the board after it.
typedef struct {
    board before;
    float targets[COLUMNS];  // ILLEGAL where there is no move
} turn;

typedef struct {
    int turns;
    int result;  // for the learner: 1, 0 or -1
} outcome;

// A game between the learner, who begins those of even numbers, and the opponent. After a few random moves both draw
// by their policies. All of it is a function of the two networks, `seed` and `number`.
outcome selfplay_game(turn turns[CELLS], const parameters *learner, const parameters *opponent, uint64_t seed,
                      uint64_t number);

#endif
