// Linear layers with one activation between them, as forward/backward passes over a tile of records.
#ifndef MLP_NETWORK_H
#define MLP_NETWORK_H

#include "rows.h"

enum { TILE = 64 };  // records that go through the network at a time: memory does not depend on batchSize

// Weights, gradients and optimizer state are flat: per layer a weight (inputs, outputs) and a bias (outputs).
typedef struct {
    batch records;
    float *sums[MOST_HIDDEN];    // (B, width) before the activation; NULL where the backward pass does without
    float *hidden[MOST_HIDDEN];  // (B, width)
    float *outputs;              // (B, outputs): scores of the classes, or normalised values
    float *doutputs;             // (B, outputs): first probabilities, then the gradient
    float *back[2];              // (B, widest hidden layer): gradients on their way back
    float *panel;                // scratch of the products
} activations;

typedef struct {
    double loss;      // sum over the records seen: cross-entropy in nats, or the mean square over the outputs
    double absolute;  // sum of the mean distance from the target, in the data's own units
    uint64_t correct, records;
} score;

// Points `a` into `memory` for `B` records and returns how many bytes it takes; with NULL it only counts.
uint64_t network_place(const model *m, activations *a, uint8_t *memory, uint32_t B);

// Weights uniform, of the size that keeps activations and gradients from layer to layer; biases 0.
void network_initialize(const model *m, float *weights, uint64_t seed);

void network_forward(const model *m, const float *weights, const activations *a, int B);

// Adds to the gradients those of the mean loss over `batch` records, of which the tile holds `B`. After network_score.
void network_backward(const model *m, const float *weights, float *gradients, const activations *a, uint32_t batch,
                      int B);

// Adds the tile's records to `total`, and leaves probabilities in `doutputs` for a classification.
void network_score(const model *m, const activations *a, score *total, int B);

// A value in the data's own units.
float output_value(const model *m, uint32_t column, float normalized);

#endif
