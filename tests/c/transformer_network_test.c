// The whole transformer: its gradient against finite differences, tiles, and growing texts.
#include <math.h>
#include <string.h>

#include "../../reference_models/lib/rng.h"
#include "../../reference_models/transformer/dataset.h"
#include "check.h"

static const sizes SMALL = {.vocabulary = 7, .context = 5, .layers = 2, .heads = 2, .width = 6, .hidden = 9};
enum { MOST_WEIGHTS = 2000, RECORDS = 3 };
static float weights[MOST_WEIGHTS], gradient[MOST_WEIGHTS];
static _Alignas(16) uint8_t memory[1 << 20];
static tile t;

static void start(void) {
    CHECK(network_parameters(&SMALL) < MOST_WEIGHTS, "%g weights", (double)network_parameters(&SMALL));
    CHECK(tile_place(&t, &SMALL, NULL) <= sizeof memory, "%g bytes", (double)tile_place(&t, &SMALL, NULL));
    memset(memory, 0xff, sizeof memory);  // NaN: nothing may be read before it is written
    tile_place(&t, &SMALL, memory);
    rng r = rng_start(5, 0);
    for (uint32_t i = 0; i < network_parameters(&SMALL); i++) weights[i] = rng_uniform(&r, 0.7f);
}

static const uint8_t table[RECORDS * 8] = {0, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0, 4, 0, 2, 0, 2, 0, 0, 0, 2, 0, 1, 0};
static const uint8_t tokens[] = {1, 0, 5, 0, 6, 0, 0, 0, 2, 0, 2, 0, 3, 0, 1, 0};

static token_score learn(float *into) {
    const dataset d = {.table = table, .tokens = tokens, .count = RECORDS};
    const uint32_t order[RECORDS] = {2, 0, 1};
    token_score score = {0};
    CHECK(dataset_load(&d, &SMALL, order, 0, RECORDS, &t) == RECORDS, "all fit one tile");
    CHECK(t.rows == 1 + 5 + 3 && t.target_count == 1 + 5 + 2, "%d rows, %d targets", t.rows, t.target_count);
    network_forward(&SMALL, weights, &t, 0);
    network_learn(&SMALL, weights, into, &t, 1.0f / 8, &score);
    return score;
}

// Central differences with a step of 2^-7: their own error is about 1e-4, mostly float32 noise of the loss.
static void test_gradient_matches_finite_differences(void) {
    const float step = 0x1p-7f;
    double largest = 0;
    memset(gradient, 0, sizeof gradient);
    CHECK(learn(gradient).targets == 8, "targets");
    for (uint32_t i = 0; i < network_parameters(&SMALL); i++) {
        float kept = weights[i];
        weights[i] = kept + step;
        double above = learn(NULL).loss / 8;
        weights[i] = kept - step;
        double below = learn(NULL).loss / 8;
        weights[i] = kept;
        double numeric = (above - below) / (2 * step);
        CHECK(fabs(numeric - gradient[i]) < 4e-4, "weight %u: %g, differences say %g", i, gradient[i], numeric);
        largest = fmax(largest, fabs(numeric));
    }
    CHECK(largest > 0.1, "the test is blind: no gradient above %g", largest);
}

static void test_a_gradient_is_added(void) {
    static float twice[MOST_WEIGHTS];
    memset(gradient, 0, sizeof gradient);
    learn(gradient);
    memcpy(twice, gradient, sizeof twice);
    learn(twice);
    for (uint32_t i = 0; i < network_parameters(&SMALL); i++)
        CHECK(fabsf(twice[i] - 2 * gradient[i]) < 1e-6f, "weight %u", i);
}

// What a text's growing prefix computes is what the whole text computes, bit for bit.
static void test_rows_can_be_computed_one_by_one(void) {
    float whole[5][7];
    const uint16_t text[5] = {3, 1, 4, 1, 5};
    memcpy(t.tokens, text, sizeof text);
    t.span_count = 1;
    t.rows = 5;
    t.spans[0] = (span){.row = 0, .rows = 5};
    network_forward(&SMALL, weights, &t, 0);
    for (int row = 0; row < 5; row++) {
        network_logits(&SMALL, weights, &t, row, 1);
        memcpy(whole[row], t.logits, sizeof whole[row]);
    }
    for (int row = 0; row < 5; row++) {
        t.rows = row + 1;
        t.spans[0].rows = (uint32_t)row + 1;
        network_forward(&SMALL, weights, &t, row);
        network_logits(&SMALL, weights, &t, row, 1);
        CHECK(memcmp(whole[row], t.logits, sizeof whole[row]) == 0, "row %d", row);
    }
}

// Decay reaches matrices and embeddings alone.
static void test_a_step_without_gradient_decays_matrices(void) {
    static float before[MOST_WEIGHTS], none[MOST_WEIGHTS];
    memcpy(before, weights, sizeof before);
    step_settings settings = {.rate = 0.5, .decay = 0.5, .clip = 1};
    network_step(&SMALL, weights, NULL, none, &settings);
    uint32_t decayed = 0, count = (uint32_t)network_parameters(&SMALL);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(weights[i] == before[i] || weights[i] == 0.75f * before[i], "weight %u", i);
        decayed += weights[i] != before[i];
    }
    CHECK(decayed == (7 + 5) * 6 + 2 * (4 * 36 + 2 * 54), "%u weights decayed", decayed);
    layer_parameters second = layer_of(&SMALL, weights, 1);
    CHECK(second.tensor[OUT_BIAS] + 6 == outer_of(&SMALL, weights).gain, "the last layer ends at the last norm");
    memcpy(weights, before, sizeof before);
}

int main(void) {
    start();
    test_gradient_matches_finite_differences();
    test_a_gradient_is_added();
    test_rows_can_be_computed_one_by_one();
    test_a_step_without_gradient_decays_matrices();
    return 0;
}
