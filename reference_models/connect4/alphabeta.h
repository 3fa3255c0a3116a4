// The opponent of the evaluation: looks a fixed number of moves ahead and knows nothing but wins and losses.
#ifndef CONNECT4_ALPHABETA_H
#define CONNECT4_ALPHABETA_H

#include "../lib/rng.h"
#include "game.h"

// The legal columns of the best value within `depth` moves, in ascending order; returns how many. A sooner win and a
// later loss are better; without a forced end every move is worth the same. The game is on, depth > 0.
int alphabeta_best(const board *b, int depth, int columns[COLUMNS]);

int alphabeta_move(const board *b, int depth, rng *random);  // one of them, drawn

#endif
