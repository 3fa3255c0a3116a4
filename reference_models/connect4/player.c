#include "player.h"

#include "../lib/functions.h"
#include "../lib/nn.h"

#define TEMPERATURE 0.1

void player_values(const parameters *p, const board *b, float values[COLUMNS]) {
    static activations a;
    for (int column = 0; column < COLUMNS; column++) {
        values[column] = ILLEGAL;
        if (!game_is_legal(b, column)) continue;
        board next = game_after(b, column);
        values[column] = network_forward(p, &next, false, &a);
    }
}

int player_best(const float values[COLUMNS]) { return largest(values, COLUMNS); }

void player_policy(const float values[COLUMNS], float policy[COLUMNS]) {
    double chances[COLUMNS], sum = 0, best = values[player_best(values)];
    for (int column = 0; column < COLUMNS; column++) {
        bool legal = values[column] > ILLEGAL;
        chances[column] = legal ? weei_exp((values[column] - best) / TEMPERATURE) : 0;
        sum += chances[column];
    }
    for (int column = 0; column < COLUMNS; column++) policy[column] = (float)(chances[column] / sum);
}

int player_draw(const float values[COLUMNS], rng *random) {
    float policy[COLUMNS], left = (float)(rng_next(random) >> 40) * 0x1p-24f;  // 24 bits, exact in a float, below 1
    player_policy(values, policy);
    for (int column = 0; column < COLUMNS; column++) {
        if (left < policy[column]) return column;
        left -= policy[column];
    }
    return player_best(values);  // rounding left a rest
}

int player_any(const board *b, rng *random) {
    int columns[COLUMNS];
    uint32_t count = 0;
    for (int column = 0; column < COLUMNS; column++)
        if (game_is_legal(b, column)) columns[count++] = column;
    return columns[rng_below(random, count)];
}
