#include "match.h"

#include "alphabeta.h"

static int rival_move(int rival, const board *b, rng *random) {
    return rival == RIVAL_RANDOM ? player_any(b, random) : alphabeta_move(b, ALPHABETA_DEPTH, random);
}

int match_points(const parameters *p, uint64_t seed, uint64_t number) {
    rng random = rng_start(seed, number);
    int side = (int)(number % 2), rival = match_rival(number);
    board b = {0};
    while (!game_is_over(&b)) {
        float values[COLUMNS];
        int column;
        if (b.count % 2 == side) {
            player_values(p, &b, values);
            column = player_best(values);
        } else {
            column = rival_move(rival, &b, &random);
        }
        b = game_after(&b, column);
    }
    return 1 + game_result(&b, side);
}
