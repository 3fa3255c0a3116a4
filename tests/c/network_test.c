// The network's gradients against finite differences, and its layers against the plainest loops.
#include <math.h>
#include <string.h>

#include "../../reference_models/digits/network.h"
#include "../../reference_models/lib/nn.h"
#include "../../reference_models/lib/rng.h"
#include "check.h"

enum { RECORDS = TILE + 8 };  // two tiles, the second one not full

static float images[RECORDS * PIXELS];  // (RECORDS, PIXELS)
static uint8_t labels[RECORDS];
static activations tile;

// Mean loss; adds its gradient to `gradients` unless that is NULL.
static double mean_loss(const parameters *p, const parameters *gradients) {
    score total = {0};
    for (int at = 0; at < RECORDS; at += TILE) {
        int B = RECORDS - at < TILE ? RECORDS - at : TILE;
        memcpy(tile.input, images + at * PIXELS, sizeof(float) * PIXELS * (size_t)B);
        memcpy(tile.labels, labels + at, (size_t)B);
        network_forward(p, &tile, B);
        network_score(&tile, &total, B);
        if (gradients != NULL) network_backward(p, gradients, &tile, 1.0f / RECORDS, B);
    }
    return total.loss / RECORDS;
}

// Central differences with a step of 2^-6. Their own error is about step^2 times the third derivative
// (1e-4 of a gradient of size 1) plus float32 noise of the loss divided by the step (1e-5); a wrong term
// in a backward function is off by 1e-2 and more.
static void test_gradients_match_finite_differences(void) {
    static float weights[WEIGHTS], gradient[WEIGHTS];
    const float step = 0x1p-6f;
    const double tolerance = 3e-4;
    network_initialize(weights, 1);
    rng r = rng_start(2, 0);
    for (int i = 0; i < WEIGHTS; i++) weights[i] += rng_uniform(&r, 0.3f);  // so that no bias is 0
    for (int i = 0; i < RECORDS * PIXELS; i++) images[i] = 0.5f + rng_uniform(&r, 0.5f);
    for (int i = 0; i < RECORDS; i++) labels[i] = (uint8_t)rng_below(&r, DIGITS);

    parameters p = network_parameters(weights), g = network_parameters(gradient);
    mean_loss(&p, &g);
    double largest_gradient = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        float kept = weights[i];
        weights[i] = kept + step;
        double above = mean_loss(&p, NULL);
        weights[i] = kept - step;
        double below = mean_loss(&p, NULL);
        weights[i] = kept;
        double numeric = (above - below) / (2 * step);
        CHECK(fabs(numeric - gradient[i]) < tolerance, "weight %d: %g, differences say %g", i, gradient[i], numeric);
        largest_gradient = fmax(largest_gradient, fabs(numeric));
    }
    CHECK(largest_gradient > 100 * tolerance, "the test is blind: no gradient above %g", largest_gradient);
}

// Widths that are no multiple of the vector length, and none at all: bits equal to one sum per output.
static void test_linear_forward_keeps_the_order_of_the_plain_loop(void) {
    float in[3 * 5], weight[5 * 9], bias[9], out[3 * 9];
    rng r = rng_start(3, 0);
    for (int O = 1; O <= 9; O++) {
        for (int i = 0; i < 15; i++) in[i] = rng_uniform(&r, 1);
        for (int i = 0; i < 45; i++) weight[i] = rng_uniform(&r, 1);
        for (int i = 0; i < 9; i++) bias[i] = rng_uniform(&r, 1);
        linear_forward(out, in, weight, bias, 3, 5, O);
        for (int b = 0; b < 3; b++)
            for (int o = 0; o < O; o++) {
                float sum = bias[o];
                for (int i = 0; i < 5; i++) sum += in[b * 5 + i] * weight[i * O + o];
                CHECK(sum == out[b * O + o], "O %d, out[%d, %d]", O, b, o);
            }
    }
}

static void test_softmax_survives_logits_that_overflow_a_float_exponential(void) {
    const float logits[3] = {1000, 999, -1000};
    float probabilities[3];
    softmax_forward(probabilities, logits, 1, 3);
    CHECK(fabs(probabilities[0] - 0.7310585786) < 1e-7 && probabilities[2] == 0, "%g %g", probabilities[0],
          probabilities[2]);
    CHECK(fabs(cross_entropy(logits, 2, 3) - 2000.3132616875) < 1e-9, "%g", cross_entropy(logits, 2, 3));
}

static void test_momentum_step_follows_its_formula(void) {
    float weight = 1, velocity = 0.5f, gradient = 2;
    momentum_step(&weight, &velocity, &gradient, 0.25f, 0.5f, 1);
    CHECK(velocity == 2.25f && weight == 0.4375f, "%g %g", velocity, weight);
}

int main(void) {
    test_gradients_match_finite_differences();
    test_linear_forward_keeps_the_order_of_the_plain_loop();
    test_softmax_survives_logits_that_overflow_a_float_exponential();
    test_momentum_step_follows_its_formula();
    return 0;
}
