// What a move is worth: the board after it -> 12 windows of 4 x 4 cells, each through the same 32 filters (ReLU) ->
// 16 hidden units (ReLU) -> one value (tanh). 7,745 weights in one block.
#ifndef CONNECT4_NETWORK_H
#define CONNECT4_NETWORK_H

#include "game.h"

enum {
    PLANES = 3,  // of who moved last, of the other, and where the next stone can fall
    SIDE = 4,    // of a window, which holds lines of every direction
    WINDOWS_ACROSS = COLUMNS - SIDE + 1,
    WINDOWS_UP = ROWS - SIDE + 1,
    WINDOWS = WINDOWS_ACROSS * WINDOWS_UP,
    PATCH = SIDE * SIDE * PLANES,
    FILTERS = 32,
    FEATURES = WINDOWS * FILTERS,
    HIDDEN = 16,
    WEIGHTS = PATCH * FILTERS + FILTERS + FEATURES * HIDDEN + HIDDEN + HIDDEN + 1,
    WEIGHT_BYTES = 4 * WEIGHTS,
};

// One block of WEIGHTS floats, in the order of the weight file; gradients have the same layout.
typedef struct {
    float filters[PATCH][FILTERS];
    float filter_bias[FILTERS];
    float dense[FEATURES][HIDDEN];
    float dense_bias[HIDDEN];
    float out[HIDDEN];
    float out_bias;
} parameters;
_Static_assert(sizeof(parameters) == WEIGHT_BYTES, "no gaps");

typedef struct {
    int8_t planes[CELLS];      // the plane that is set in a cell, column by column, or -1
    float features[FEATURES];  // (WINDOWS, FILTERS) after ReLU
    float hidden[HIDDEN];      // after ReLU
    float value;
} activations;

void network_initialize(parameters *p, uint64_t seed);

// The value of `b` for the player who moved last, between -1 and 1. A mirrored board is the same game.
float network_forward(const parameters *p, const board *b, bool mirrored, activations *a);

// `dsum` is the gradient of the loss by the value before its tanh. Adds to `gradient`.
void network_backward(const parameters *p, parameters *gradient, const activations *a, float dsum);

#endif
