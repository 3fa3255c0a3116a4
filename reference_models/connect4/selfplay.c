#include "selfplay.h"

enum { MOST_RANDOM = 6 };  // moves at the start of a game, so that games differ

// One move is worth what the end of the game is worth, if it ends the game; else the opposite of what the best
// answer is worth: one step of dynamic programming (Bellman 1957), with the network's word for the answers.
static float target_of(const parameters *learner, const board *after) {
    float answers[COLUMNS];
    if (game_is_over(after)) return (float)game_result(after, (after->count + 1) % 2);
    float best = ILLEGAL;
    player_values(learner, after, answers);
    for (int column = 0; column < COLUMNS; column++) {
        if (answers[column] <= ILLEGAL) continue;
        board end = game_after(after, column);
        float value = game_is_over(&end) ? (float)game_result(&end, after->count % 2) : answers[column];
        if (value > best) best = value;
    }
    return -best;
}

static void study(turn *t, const parameters *learner, const board *b) {
    t->before = *b;
    for (int column = 0; column < COLUMNS; column++) {
        t->targets[column] = ILLEGAL;
        if (!game_is_legal(b, column)) continue;
        board after = game_after(b, column);
        t->targets[column] = target_of(learner, &after);
    }
}

outcome selfplay_game(turn turns[CELLS], const parameters *learner, const parameters *opponent, uint64_t seed,
                      uint64_t number) {
    rng random = rng_start(seed, number);
    int side = (int)(number % 2), random_moves = (int)rng_below(&random, MOST_RANDOM + 1);
    board b = {0};
    while (!game_is_over(&b)) {
        study(&turns[b.count], learner, &b);
        int column;
        if (b.count < random_moves) {
            column = player_any(&b, &random);
        } else {
            float values[COLUMNS];
            player_values(b.count % 2 == side ? learner : opponent, &b, values);
            column = player_draw(values, &random);
        }
        b = game_after(&b, column);
    }
    return (outcome){b.count, game_result(&b, side)};
}
