// Connect Four's network and its gradient against the plainest formulas.
#include <math.h>
#include <string.h>

#include "../../reference_models/connect4/player.h"
#include "check.h"

static parameters weights;

static board after(const char *moves) {
    board b = {0};
    for (; *moves != '\0'; moves++) b = game_after(&b, *moves - '0');
    return b;
}

// 1 when the input of a plane is set in a cell.
static double input(const board *b, bool mirrored, int column, int row, int plane) {
    if (mirrored) column = COLUMNS - 1 - column;
    uint64_t bit = cell_bit(column, row), all = b->stones[0] | b->stones[1];
    bool below = row == 0 || (all & cell_bit(column, row - 1)) != 0;
    if (plane == 2) return (all & bit) == 0 && below;
    return (b->stones[(b->count + 1 + plane) % 2] & bit) != 0;
}

// Every sum written out, in double; the value before its tanh.
static double sum_of(const board *b, bool mirrored) {
    static double features[FEATURES];
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 3; y++)
            for (int f = 0; f < FILTERS; f++) {
                double sum = weights.filter_bias[f];
                for (int i = 0; i < PATCH; i++)
                    sum += weights.filters[i][f] * input(b, mirrored, x + i / 12, y + i / 3 % 4, i % 3);
                features[(x * 3 + y) * FILTERS + f] = fmax(sum, 0);
            }
    double total = weights.out_bias;
    for (int h = 0; h < HIDDEN; h++) {
        double sum = weights.dense_bias[h];
        for (int i = 0; i < FEATURES; i++) sum += features[i] * weights.dense[i][h];
        total += fmax(sum, 0) * weights.out[h];
    }
    return total;
}

// Cross-entropy of (1 + v) / 2 against (1 + target) / 2.
static double loss_of(const board *b, bool mirrored, double target) {
    double v = tanh(sum_of(b, mirrored));
    return -0.5 * ((1 + target) * log((1 + v) / 2) + (1 - target) * log((1 - v) / 2));
}

static void start(void) {
    network_initialize(&weights, 1);
    rng r = rng_start(2, 0);
    for (int f = 0; f < FILTERS; f++) weights.filter_bias[f] = rng_uniform(&r, 0.3f);  // so that no bias is 0
    for (int h = 0; h < HIDDEN; h++) weights.dense_bias[h] = rng_uniform(&r, 0.3f);
    weights.out_bias = 0.1f;
}

// Central differences of the double formulas, so that the step may be small: a ReLU whose corner lies within it would
// be seen as an error. Gradients are up to 0.1; rounding in the module is near 1e-7.
static void check_gradient(const char *moves, bool mirrored, float target) {
    static parameters gradient;
    static activations a;
    const float step = 0x1p-18f;
    const double tolerance = 1e-6;
    board b = after(moves);
    gradient = (parameters){0};
    float value = network_forward(&weights, &b, mirrored, &a);
    CHECK(fabs(value - tanh(sum_of(&b, mirrored))) < 2e-6, "%s: %g", moves, value);
    network_backward(&weights, &gradient, &a, value - target);
    float *w = (float *)&weights, *g = (float *)&gradient;
    double largest_gradient = 0;
    int zeros = 0, checked = 0;
    // Every filter, every weight behind the hidden layer, and each seventh before it.
    for (int i = 0; i < WEIGHTS; i += i > PATCH * FILTERS && i < WEIGHTS - 2 * HIDDEN - 8 ? 7 : 1) {
        float kept = w[i], upper = kept + step, lower = kept - step;
        w[i] = upper;
        double above = loss_of(&b, mirrored, target);
        w[i] = lower;
        double below = loss_of(&b, mirrored, target);
        w[i] = kept;
        double numeric = (above - below) / ((double)upper - lower);
        CHECK(fabs(numeric - g[i]) < tolerance, "%s, weight %d: %g, differences say %g", moves, i, g[i], numeric);
        zeros += g[i] == 0;
        checked++;
        largest_gradient = fmax(largest_gradient, fabs(numeric));
    }
    CHECK(largest_gradient > 1e4 * tolerance && zeros < checked * 9 / 10, "the test is blind: %g, %d of %d are 0",
          largest_gradient, zeros, checked);
}

static void test_gradient_matches_finite_differences(void) {
    start();
    check_gradient("332415560", false, -0.5f);
    check_gradient("332415560", true, 1);
    check_gradient("00112", false, 0.25f);
}

static void test_a_mirrored_board_is_the_board_of_mirrored_moves(void) {
    static activations a;
    start();
    board b = after("332415560"), mirror = after("334251106");
    float plain = network_forward(&weights, &b, false, &a), turned = network_forward(&weights, &b, true, &a);
    CHECK(turned == network_forward(&weights, &mirror, false, &a), "%g", turned);
    CHECK(plain == network_forward(&weights, &mirror, true, &a), "%g", plain);
    CHECK(plain != turned, "the test is blind");
}

// The largest weights that load leave no sum infinite.
static void test_the_largest_weights_have_a_value(void) {
    static activations a;
    board b = after("33241552");
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int i = 0; i < WEIGHTS; i++) ((float *)&weights)[i] = 1e6f;
        for (int h = 0; h < HIDDEN; h += 2) weights.out[h] = (float)sign * 1e6f;
        float value = network_forward(&weights, &b, false, &a);
        CHECK(value > -1 && value < 1, "%g", value);
    }
}

static void test_drawn_moves_follow_the_policy(void) {
    enum { DRAWS = 40000 };
    float values[COLUMNS] = {0.1f, ILLEGAL, 0, 0.05f, -0.9f, 0.1f, -0.1f}, policy[COLUMNS];
    int drawn[COLUMNS] = {0};
    double sum = 0;
    rng r = rng_start(3, 0);
    player_policy(values, policy);
    for (int i = 0; i < DRAWS; i++) drawn[player_draw(values, &r)]++;
    for (int column = 0; column < COLUMNS; column++) {
        double share = (double)drawn[column] / DRAWS;
        CHECK(fabs(share - policy[column]) < 0.01, "column %d: %g, %g", column, share, policy[column]);
        sum += policy[column];
    }
    CHECK(fabs(sum - 1) < 1e-6 && policy[1] == 0 && drawn[1] == 0, "%g", sum);
    CHECK(fabs(policy[2] / policy[0] - exp(-1)) < 1e-6 && player_best(values) == 0, "%g", policy[2] / policy[0]);
}

int main(void) {
    test_gradient_matches_finite_differences();
    test_a_mirrored_board_is_the_board_of_mirrored_moves();
    test_the_largest_weights_have_a_value();
    test_drawn_moves_follow_the_policy();
    return 0;
}
