// A player is a network: it looks at the boards after each of its moves and at nothing behind them.
#ifndef CONNECT4_PLAYER_H
#define CONNECT4_PLAYER_H

#include "../lib/rng.h"
#include "network.h"

#define ILLEGAL (-2.0f)  // below every value

// What each move is worth to the player to move, -1 to 1. The game is on.
void player_values(const parameters *p, const board *b, float values[COLUMNS]);

// The chance of each move in training, a softmax of the values: a move that is worth 0.1 less is played a third as
// often.
void player_policy(const float values[COLUMNS], float policy[COLUMNS]);

int player_best(const float values[COLUMNS]);                 // the first of the best
int player_draw(const float values[COLUMNS], rng *random);    // by the policy
int player_any(const board *b, rng *random);                  // a legal move without thought

#endif
