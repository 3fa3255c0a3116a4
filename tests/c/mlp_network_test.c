// The gradients of every form of the network against finite differences, and its loss against the plainest formula.
#include <math.h>
#include <string.h>

#include "../../reference_models/lib/rng.h"
#include "../../reference_models/mlp/network.h"
#include "check.h"

enum { INPUTS = 5, OUTPUTS = 3, MOST_WEIGHTS = 200, RECORDS = TILE + 8 };  // two tiles, the second one not full

static float inputs[RECORDS * INPUTS];    // (RECORDS, INPUTS)
static float values[RECORDS * OUTPUTS];   // (RECORDS, OUTPUTS)
static uint32_t labels[RECORDS];
static uint8_t memory[1 << 16] __attribute__((aligned(16)));

// Scales 2, 1/2, 4: what a regression reports is in other units than what it learns from.
static const uint8_t STATISTICS[OUTPUTS * STATISTIC_BYTES] = {
    0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x40};

static model make(uint32_t hidden, uint32_t activation, bool regression) {
    static const uint32_t WIDTHS[] = {7, 6};
    model m = {.layers = hidden + 1, .inputs = INPUTS, .outputs = OUTPUTS, .activation = activation};
    m.regression = regression;
    m.output_statistics = regression ? STATISTICS : NULL;
    m.width[0] = INPUTS;
    for (uint32_t i = 0; i < hidden; i++) m.width[i + 1] = WIDTHS[i];
    m.width[m.layers] = OUTPUTS;
    for (uint32_t i = 0; i < m.layers; i++) m.weights += (m.width[i] + 1) * m.width[i + 1];
    CHECK(m.weights <= MOST_WEIGHTS, "%u weights", m.weights);
    return m;
}

static score forward(const model *m, const float *weights, float *gradients) {
    activations a;
    score total = {0};
    CHECK(network_place(m, &a, memory, TILE) <= sizeof memory, "activations");
    for (int at = 0; at < RECORDS; at += TILE) {
        int B = RECORDS - at < TILE ? RECORDS - at : TILE;
        memcpy(a.records.input, inputs + at * INPUTS, sizeof(float) * INPUTS * (size_t)B);
        if (m->regression) memcpy(a.records.values, values + at * OUTPUTS, sizeof(float) * OUTPUTS * (size_t)B);
        else memcpy(a.records.labels, labels + at, sizeof(uint32_t) * (size_t)B);
        network_forward(m, weights, &a, B);
        network_score(m, &a, &total, B);
        if (gradients != NULL) network_backward(m, weights, gradients, &a, RECORDS, B);
    }
    return total;
}

static double mean_loss(const model *m, const float *weights) { return forward(m, weights, NULL).loss / RECORDS; }

static void start(const model *m, float *weights) {
    network_initialize(m, weights, 1);
    rng r = rng_start(2, 0);
    for (uint32_t i = 0; i < m->weights; i++) weights[i] += rng_uniform(&r, 0.3f);  // so that no bias is 0
    for (int i = 0; i < RECORDS * INPUTS; i++) inputs[i] = rng_uniform(&r, 1.5f);
    for (int i = 0; i < RECORDS * OUTPUTS; i++) values[i] = rng_uniform(&r, 1);
    for (int i = 0; i < RECORDS; i++) labels[i] = rng_below(&r, OUTPUTS);
}

// Central differences. Their own error is about step^2 times the third derivative plus float32 noise of the loss divided
// by the step. A ReLU has no derivative where its input crosses 0, which a small step meets in few records; each of them
// is off by up to 1 / RECORDS of a gradient. A wrong term in a backward function is off by 1e-2 and more.
static void test_gradients(uint32_t hidden, uint32_t activation, bool regression) {
    static float weights[MOST_WEIGHTS], gradients[MOST_WEIGHTS];
    const float step = activation == RELU ? 0x1p-10f : 0x1p-6f;
    const double tolerance = activation == RELU ? 3e-3 : 4e-4;
    model m = make(hidden, activation, regression);
    start(&m, weights);
    memset(gradients, 0, sizeof gradients);
    forward(&m, weights, gradients);
    double largest_gradient = 0;
    for (uint32_t i = 0; i < m.weights; i++) {
        float kept = weights[i];
        weights[i] = kept + step;
        double above = mean_loss(&m, weights);
        weights[i] = kept - step;
        double below = mean_loss(&m, weights);
        weights[i] = kept;
        double numeric = (above - below) / (2 * step);
        CHECK(fabs(numeric - gradients[i]) < tolerance, "hidden %u, activation %u, regression %d, weight %u: %g, %g",
              hidden, activation, regression, i, gradients[i], numeric);
        largest_gradient = fmax(largest_gradient, fabs(numeric));
    }
    CHECK(largest_gradient > 30 * tolerance, "the test is blind: no gradient above %g", largest_gradient);
}

static void test_a_network_without_hidden_layers_is_the_plain_formula(void) {
    static float weights[MOST_WEIGHTS];
    model m = make(0, RELU, true);
    start(&m, weights);
    double square = 0, distance = 0;
    for (int r = 0; r < RECORDS; r++)
        for (int o = 0; o < OUTPUTS; o++) {
            double sum = weights[INPUTS * OUTPUTS + o];
            for (int i = 0; i < INPUTS; i++) sum += (double)inputs[r * INPUTS + i] * weights[i * OUTPUTS + o];
            double difference = sum - values[r * OUTPUTS + o];
            square += difference * difference / OUTPUTS;
            distance += fabs(difference) / statistic_scale(STATISTICS, (uint32_t)o) / OUTPUTS;
        }
    score total = forward(&m, weights, NULL);
    CHECK(fabs(total.loss - square) < 1e-4 && fabs(total.absolute - distance) < 1e-4, "%g %g, expected %g %g",
          total.loss, total.absolute, square, distance);
    CHECK(output_value(&m, 0, 3) == 2.5f && output_value(&m, 1, 3) == 6 && output_value(&m, 2, 4) == -1, "units");
}

static void test_layers_begin_within_their_limits(void) {
    static float weights[MOST_WEIGHTS];
    model m = make(1, RELU, false);
    network_initialize(&m, weights, 5);
    double most[2] = {0};
    for (int i = 0; i < 5 * 7; i++) most[0] = fmax(most[0], fabs(weights[i]));
    for (int i = 42; i < 42 + 7 * 3; i++) most[1] = fmax(most[1], fabs(weights[i]));
    for (int i = 35; i < 42; i++) CHECK(weights[i] == 0 && weights[63] == 0, "a bias is not 0");
    CHECK(most[0] <= sqrt(6.0 / 5) && most[0] > 0.9 * sqrt(6.0 / 5), "%g", most[0]);
    CHECK(most[1] <= sqrt(6.0 / 10) && most[1] > 0.8 * sqrt(6.0 / 10), "%g", most[1]);
}

int main(void) {
    for (uint32_t hidden = 0; hidden <= 2; hidden++)
        for (uint32_t activation = RELU; activation <= TANH; activation++)
            for (int regression = 0; regression < 2; regression++) test_gradients(hidden, activation, regression == 1);
    test_a_network_without_hidden_layers_is_the_plain_formula();
    test_layers_begin_within_their_limits();
    return 0;
}
