// What the configuration makes of the module: shape, defaults, class names and column statistics.
#ifndef MLP_MODEL_H
#define MLP_MODEL_H

#include "../lib/config.h"

enum {
    MOST_HIDDEN = 16,
    MOST_LAYERS = MOST_HIDDEN + 1,
    MOST_WIDTH = 1 << 20,
    MOST_OUTPUTS = 4096,
    MOST_NAME_BYTES = 200,
    STATISTIC_BYTES = 8,  // f32 mean, f32 scale
};

enum { RELU, GELU, TANH };
enum { SGD, ADAMW };

typedef struct {
    config configuration;
    uint32_t layers;                  // linear ones: one more than the hidden layers
    uint32_t width[MOST_LAYERS + 1];  // inputs, each hidden layer, outputs
    uint32_t inputs, outputs;
    uint32_t activation;
    bool regression;
    bool bytes;  // inputs are bytes, divided by 255
    uint32_t weights;

    double learning_rate, weight_decay, clip_norm;
    uint32_t optimizer;
    double beta1, beta2, epsilon;

    const uint8_t *names;  // per class u32 bytes, UTF-8; NULL for regression
    uint32_t names_bytes;
    const uint8_t *input_statistics;   // (inputs, STATISTIC_BYTES); NULL for bytes
    const uint8_t *output_statistics;  // (outputs, STATISTIC_BYTES); NULL for classification
} model;

// Reads the configuration when it is asked for the first time; NULL with the error set when it cannot be used.
const model *model_open(void);

// Copies the class name at this place of `names`, terminated, and returns where the next one is.
const uint8_t *model_name(const uint8_t *at, char name[MOST_NAME_BYTES + 1]);

static inline float statistic_mean(const uint8_t *statistics, uint32_t i) {
    return f32_at(statistics + (size_t)i * STATISTIC_BYTES);
}
static inline float statistic_scale(const uint8_t *statistics, uint32_t i) {
    return f32_at(statistics + (size_t)i * STATISTIC_BYTES + 4);
}

#endif
