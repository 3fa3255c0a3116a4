// Games for evaluation: the network plays its best move, without any chance.
#ifndef CONNECT4_MATCH_H
#define CONNECT4_MATCH_H

#include "player.h"

enum { RIVAL_RANDOM, RIVAL_ALPHABETA, RIVALS };
enum { ALPHABETA_DEPTH = 4 };

// Of four games in a row two are against each rival, and the network begins one of them.
static inline int match_rival(uint64_t number) { return (int)(number / 2 % RIVALS); }

// 2 for a won game, 1 for a draw, 0 for a lost one. A function of the network, `seed` and `number`.
int match_points(const parameters *p, uint64_t seed, uint64_t number);

#endif
