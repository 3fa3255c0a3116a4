#include "alphabeta.h"

enum {
    WIN = 100,     // and one more for each move that was left to look ahead
    LIMIT = 1000,  // above every value
};

// Value for the player to move: exact between alpha and beta, a bound outside. Recursion is `depth` deep.
static int search(const board *b, int depth, int alpha, int beta) {
    if (game_was_won(b)) return -(WIN + depth);
    if (depth == 0 || game_is_full(b)) return 0;
    for (int column = 0; column < COLUMNS && alpha < beta; column++) {
        if (!game_is_legal(b, column)) continue;
        board next = game_after(b, column);
        int value = -search(&next, depth - 1, -beta, -alpha);
        if (value > alpha) alpha = value;
    }
    return alpha;
}

int alphabeta_best(const board *b, int depth, int columns[COLUMNS]) {
    int best = -LIMIT, count = 0;
    for (int column = 0; column < COLUMNS; column++) {
        if (!game_is_legal(b, column)) continue;
        board next = game_after(b, column);
        // The window begins one below the best, so that equals are told apart from what is worse.
        int value = -search(&next, depth - 1, -LIMIT, 1 - best);
        if (value > best) {
            best = value;
            count = 0;
        }
        if (value == best) columns[count++] = column;
    }
    return count;
}

int alphabeta_move(const board *b, int depth, rng *random) {
    int columns[COLUMNS], count = alphabeta_best(b, depth, columns);
    return columns[rng_below(random, (uint32_t)count)];
}
