// The file format weei-rows (README.md): a header of 24 bytes, the inputs of all records, then their targets.
#ifndef MLP_ROWS_H
#define MLP_ROWS_H

#include "model.h"

#define ROWS_FORMAT "weei-rows"

typedef struct {
    const uint8_t *inputs;   // (records of the file, inputs) f32 or bytes
    const uint8_t *targets;  // (records, 1) u32 class, or (records, outputs) f32
    uint32_t first, count;   // the records the request selects
} rows;

// Where records go before the network sees them; one of the last two is used.
typedef struct {
    float *input;     // (B, inputs)
    uint32_t *labels;  // (B)
    float *values;     // (B, outputs)
} batch;

// Checks the whole file and the request's record range; false with the error set.
bool rows_open(json request, const model *m, rows *selected);

// Copies `count` records, normalised.
void rows_load(const model *m, const rows *r, const uint32_t *indices, uint32_t count, const batch *out);

// One input as the network takes it, from the number a person sees.
float normalized_input(const model *m, uint32_t column, float value);

#endif
