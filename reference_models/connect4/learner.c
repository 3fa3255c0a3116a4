#include "learner.h"

void learner_start(learner *l) {
    l->optimizer = (adam){.mean = l->mean, .square = l->square};
    adam_start(&l->optimizer, WEIGHTS);
}

static int moves_of(const turn *t) {
    int moves = 0;
    for (int column = 0; column < COLUMNS; column++) moves += t->targets[column] > ILLEGAL;
    return moves;
}

// With v = tanh(s) and the target z, the cross-entropy of (1 + v) / 2 against (1 + z) / 2 has the derivative v - z
// by s.
static void turn_backward(learner *l, const parameters *weights, const turn *t, bool mirrored, float scale,
                          error_sum *total) {
    static activations a;
    for (int column = 0; column < COLUMNS; column++) {
        if (t->targets[column] <= ILLEGAL) continue;
        board after = game_after(&t->before, column);
        float difference = network_forward(weights, &after, mirrored, &a) - t->targets[column];
        network_backward(weights, &l->gradient, &a, scale * difference);
        total->squares += (double)difference * difference;
        total->moves += 1;
    }
}

void learner_step(learner *l, parameters *weights, const turn *turns, const uint32_t *indices, uint32_t count,
                  float rate, rng *random, error_sum *total) {
    int moves = 0;
    for (uint32_t i = 0; i < count; i++) moves += moves_of(&turns[indices[i]]);
    l->gradient = (parameters){0};
    for (uint32_t i = 0; i < count; i++) {
        bool mirrored = rng_below(random, 2) == 1;
        turn_backward(l, weights, &turns[indices[i]], mirrored, 1 / (float)moves, total);
    }
    adam_step((float *)weights, &l->optimizer, (const float *)&l->gradient, rate, WEIGHTS);
}
