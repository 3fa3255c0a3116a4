#include "network.h"

#include "../lib/functions.h"
#include "../lib/rng.h"

// Uniform with limit sqrt(6 / inputs) keeps the size of what passes a ReLU from layer to layer (He et al. 2015): 0.35355
// and 0.125. The last layer starts smaller, so that before training no move is worth much more than another.
void network_initialize(parameters *p, uint64_t seed) {
    rng r = rng_start(seed, 0);
    *p = (parameters){0};
    for (int i = 0; i < PATCH; i++)
        for (int f = 0; f < FILTERS; f++) p->filters[i][f] = rng_uniform(&r, 0.35355f);
    for (int i = 0; i < FEATURES; i++)
        for (int h = 0; h < HIDDEN; h++) p->dense[i][h] = rng_uniform(&r, 0.125f);
    for (int h = 0; h < HIDDEN; h++) p->out[h] = rng_uniform(&r, 0.2f);
}

static inline void add_row(float *restrict out, const float *restrict in, int n) {
    for (int i = 0; i < n; i++) out[i] += in[i];
}

static inline void add_scaled(float *restrict out, const float *restrict in, float factor, int n) {
    for (int i = 0; i < n; i++) out[i] += factor * in[i];
}

// Four sums side by side, then together: an order of its own, but always the same.
static inline float dot(const float *a, const float *b, int n) {
    float lane[4] = {0};
    for (int i = 0; i < n; i += 4)
        for (int k = 0; k < 4; k++) lane[k] += a[i + k] * b[i + k];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}
_Static_assert(HIDDEN % 4 == 0, "dot takes four at a time");

static inline float relu(float x) { return x > 0 ? x : 0; }

static void read_planes(const board *b, bool mirrored, int8_t *planes) {
    uint64_t mine = stones_of_other(b), theirs = stones_of_mover(b), playable = game_playable(mine | theirs);
    for (int i = 0; i < CELLS; i++) {
        int column = i / ROWS;
        uint64_t bit = cell_bit(mirrored ? COLUMNS - 1 - column : column, i % ROWS);
        planes[i] = mine & bit ? 0 : theirs & bit ? 1 : playable & bit ? 2 : -1;
    }
}

// The row of `filters` that a window's cell selects, or -1.
static inline int patch_row(const int8_t *planes, int window, int at) {
    int column = window / WINDOWS_UP + at / SIDE, row = window % WINDOWS_UP + at % SIDE;
    int plane = planes[column * ROWS + row];
    return plane < 0 ? -1 : at * PLANES + plane;
}

static void windows_forward(const parameters *p, activations *a) {
    for (int window = 0; window < WINDOWS; window++) {
        float sums[FILTERS], *features = a->features + window * FILTERS;
        for (int f = 0; f < FILTERS; f++) sums[f] = p->filter_bias[f];
        for (int at = 0; at < SIDE * SIDE; at++) {
            int row = patch_row(a->planes, window, at);
            if (row >= 0) add_row(sums, p->filters[row], FILTERS);
        }
        for (int f = 0; f < FILTERS; f++) features[f] = relu(sums[f]);
    }
}

static void windows_backward(parameters *gradient, const activations *a, const float *dfeatures) {
    for (int window = 0; window < WINDOWS; window++) {
        const float *dsums = dfeatures + window * FILTERS;
        add_row(gradient->filter_bias, dsums, FILTERS);
        for (int at = 0; at < SIDE * SIDE; at++) {
            int row = patch_row(a->planes, window, at);
            if (row >= 0) add_row(gradient->filters[row], dsums, FILTERS);
        }
    }
}

float network_forward(const parameters *p, const board *b, bool mirrored, activations *a) {
    read_planes(b, mirrored, a->planes);
    windows_forward(p, a);
    float sums[HIDDEN];
    for (int h = 0; h < HIDDEN; h++) sums[h] = p->dense_bias[h];
    for (int i = 0; i < FEATURES; i++)
        if (a->features[i] != 0) add_scaled(sums, p->dense[i], a->features[i], HIDDEN);
    for (int h = 0; h < HIDDEN; h++) a->hidden[h] = relu(sums[h]);
    a->value = tanh_float(p->out_bias + dot(a->hidden, p->out, HIDDEN));
    return a->value;
}

void network_backward(const parameters *p, parameters *gradient, const activations *a, float dsum) {
    float dhidden[HIDDEN], dfeatures[FEATURES];
    gradient->out_bias += dsum;
    add_scaled(gradient->out, a->hidden, dsum, HIDDEN);
    for (int h = 0; h < HIDDEN; h++) dhidden[h] = a->hidden[h] > 0 ? dsum * p->out[h] : 0;
    add_row(gradient->dense_bias, dhidden, HIDDEN);
    for (int i = 0; i < FEATURES; i++) {
        dfeatures[i] = 0;
        if (a->features[i] == 0) continue;
        add_scaled(gradient->dense[i], dhidden, a->features[i], HIDDEN);
        dfeatures[i] = dot(dhidden, p->dense[i], HIDDEN);
    }
    windows_backward(gradient, a, dfeatures);
}
