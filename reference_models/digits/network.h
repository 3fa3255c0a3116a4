// 64 pixels -> 32 hidden units (tanh) -> 10 digits (softmax), 2,410 weights in one block.
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include "dataset.h"

enum {
    HIDDEN = 32,
    WEIGHTS = PIXELS * HIDDEN + HIDDEN + HIDDEN * DIGITS + DIGITS,
    WEIGHT_BYTES = 4 * WEIGHTS,
    TILE = 32,  // records that go through the network at a time: memory does not depend on batchSize
};

// Views into one block of WEIGHTS floats; gradients have the same layout.
typedef struct {
    float *w1;  // (PIXELS, HIDDEN)
    float *b1;  // (HIDDEN)
    float *w2;  // (HIDDEN, DIGITS)
    float *b2;  // (DIGITS)
} parameters;

parameters network_parameters(float *block);

typedef struct {
    float input[TILE * PIXELS];          // (B, PIXELS)
    float hidden_sums[TILE * HIDDEN];    // (B, HIDDEN) before tanh
    float hidden[TILE * HIDDEN];         // (B, HIDDEN)
    float logits[TILE * DIGITS];         // (B, DIGITS)
    float probabilities[TILE * DIGITS];  // (B, DIGITS)
    uint8_t labels[TILE];                // (B)
} activations;

typedef struct {
    double loss;  // sum over the records seen
    uint64_t correct, records;
} score;

void network_initialize(float *block, uint64_t seed);  // Glorot uniform, biases 0
void network_forward(const parameters *p, activations *a, int B);
void network_backward(const parameters *p, const parameters *gradients, const activations *a, float scale, int B);
void network_score(const activations *a, score *total, int B);

#endif
