// A configured decoder and its weights: what the modules `transformer` and `text_policy` have in common.
#ifndef TRANSFORMER_MODEL_H
#define TRANSFORMER_MODEL_H

#include "network.h"

typedef struct {
    config source;
    sizes s;
    uint32_t parameters;
    double learning_rate, weight_decay, clip, beta1, beta2, epsilon;
    bool adamw;
    int64_t end_token;  // -1 = none
} model;

enum { MODEL_VALUES = 15 };  // of a configuration; a kind's own values stand behind them

extern float *model_weights;  // (parameters), the host's buffer since model_load; NULL = none

// All of these return false with the error set when something is wrong. A configuration must be of `kind`.
bool model_open(model *m, uint32_t kind);
bool model_open_loaded(model *m, uint32_t kind);  // and weights are there

// The body of createInitialWeights.
bool model_create(const model *m, json request, json_writer *result);

// The request's `weights`, as many as the model has and all finite, in the host's buffer.
bool model_read_weights(const model *m, json request, float **loaded);

// The body of loadModel: the host's buffer becomes the weights. Training works in it and returns it, so nothing is
// copied.
bool model_load(const model *m, json request, json_writer *result);

// A diverged block is of no use to anyone: gives it up, so that the next call says that there is none.
void model_give_up_weights(const model *m);

// How a training with this rate begins.
step_settings model_step(const model *m, double learning_rate);

static inline uint32_t weight_bytes(const model *m) { return m->parameters * (uint32_t)sizeof(float); }
bool all_finite(const float *block, uint32_t count);

// Blocks of the heap. NULL with the error set, which says what needs so much.
void *allocate(uint64_t bytes, const char *what);
void release(void *block, uint32_t bytes);  // of NULL nothing

static inline uint64_t aligned(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

static inline void clear(float *at, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) at[i] = 0;
}

#endif
