#include "network.h"

#include "../lib/functions.h"
#include "../lib/layers.h"
#include "../lib/matmul.h"
#include "../lib/nn.h"
#include "../lib/rng.h"

enum { BLOCK = 16 };  // each part begins on a multiple of it

static float *place(uint8_t *memory, uint64_t *at, uint64_t values) {
    float *part = memory == NULL ? NULL : (float *)(void *)(memory + *at);
    *at += (values * sizeof(float) + BLOCK - 1) / BLOCK * BLOCK;
    return part;
}

static uint32_t widest_hidden(const model *m) {
    uint32_t widest = 0;
    for (uint32_t i = 1; i < m->layers; i++) widest = m->width[i] > widest ? m->width[i] : widest;
    return widest;
}

// Rows of the panel of every product, forward and back (layers.h).
static uint64_t panel_rows(const model *m, uint32_t B) {
    uint64_t rows = B;
    for (uint32_t i = 0; i <= m->layers; i++) rows = m->width[i] > rows ? m->width[i] : rows;
    return rows;
}

uint64_t network_place(const model *m, activations *a, uint8_t *memory, uint32_t B) {
    uint64_t at = 0, back = (uint64_t)B * widest_hidden(m), outputs = (uint64_t)B * m->outputs;
    *a = (activations){0};
    a->records.input = place(memory, &at, (uint64_t)B * m->inputs);
    for (uint32_t i = 0; i + 1 < m->layers; i++) {
        if (m->activation == GELU) a->sums[i] = place(memory, &at, (uint64_t)B * m->width[i + 1]);
        a->hidden[i] = place(memory, &at, (uint64_t)B * m->width[i + 1]);
    }
    a->outputs = place(memory, &at, outputs);
    a->doutputs = place(memory, &at, outputs);
    for (int i = 0; i < 2; i++) a->back[i] = place(memory, &at, back);
    if (m->regression) a->records.values = place(memory, &at, outputs);
    else a->records.labels = (uint32_t *)(void *)place(memory, &at, B);
    a->panel = place(memory, &at, panel_rows(m, B) * MATMUL_COLUMNS);
    return at;
}

// ReLU and GELU lose about half of what they are given, so that their layers begin with sqrt(6 / inputs) as the limit of
// a uniform distribution (He et al. 2015); the others with sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010).
void network_initialize(const model *m, float *weights, uint64_t seed) {
    for (uint32_t layer = 0; layer < m->layers; layer++) {
        uint32_t I = m->width[layer], O = m->width[layer + 1];
        bool halved = layer + 1 < m->layers && m->activation != TANH;
        float limit = (float)__builtin_sqrt(6.0 / (halved ? (double)I : (double)I + O));
        rng r = rng_start(seed, layer);
        for (size_t i = 0; i < (size_t)I * O; i++) *weights++ = rng_uniform(&r, limit);
        for (uint32_t o = 0; o < O; o++) *weights++ = 0;
    }
}

// The library's tanh in double costs more than the products of a small network.
static void tanh_inplace(float *values, int n) {
    for (int i = 0; i < n; i++) values[i] = tanh_float(values[i]);
}

static void activate(const model *m, const activations *a, uint32_t layer, int n) {
    if (m->activation == RELU) relu_forward(a->hidden[layer], a->hidden[layer], n);
    else if (m->activation == GELU) gelu_forward(a->hidden[layer], a->sums[layer], n);
    else tanh_inplace(a->hidden[layer], n);
}

void network_forward(const model *m, const float *weights, const activations *a, int B) {
    const float *in = a->records.input;
    for (uint32_t layer = 0; layer < m->layers; layer++) {
        uint32_t I = m->width[layer], O = m->width[layer + 1];
        bool last = layer + 1 == m->layers;
        float *out = last ? a->outputs : a->sums[layer] != NULL ? a->sums[layer] : a->hidden[layer];
        dense_forward(out, in, weights, weights + (size_t)I * O, a->panel, B, (int)I, (int)O, false);
        weights += (size_t)I * O + O;
        if (last) return;
        activate(m, a, layer, B * (int)O);
        in = a->hidden[layer];
    }
}

static void activation_backward(const model *m, const activations *a, uint32_t layer, float *gradient, int n) {
    if (m->activation == RELU) relu_backward(gradient, gradient, a->hidden[layer], n);
    else if (m->activation == GELU) gelu_backward(gradient, a->hidden[layer], gradient, a->sums[layer], n);
    else tanh_backward(gradient, gradient, a->hidden[layer], n);
}

// Of the mean over the batch of cross-entropy, or of the mean square over the outputs.
static void loss_backward(const model *m, const activations *a, uint32_t batch, int B) {
    float scale = m->regression ? 2 / ((float)batch * (float)m->outputs) : 1 / (float)batch;
    for (int b = 0; b < B; b++) {
        float *gradient = a->doutputs + (size_t)b * m->outputs;
        const float *outputs = a->outputs + (size_t)b * m->outputs;
        const float *values = a->records.values + (m->regression ? (size_t)b * m->outputs : 0);
        for (uint32_t o = 0; o < m->outputs; o++) {
            float difference = m->regression ? outputs[o] - values[o]
                                             : gradient[o] - (o == a->records.labels[b] ? 1.0f : 0.0f);
            gradient[o] = scale * difference;
        }
    }
}

void network_backward(const model *m, const float *weights, float *gradients, const activations *a, uint32_t batch,
                      int B) {
    loss_backward(m, a, batch, B);
    float *dout = a->doutputs;
    size_t at = m->weights;
    for (uint32_t layer = m->layers; layer-- > 0;) {
        int I = (int)m->width[layer], O = (int)m->width[layer + 1];
        size_t matrix = (size_t)I * (size_t)O;
        at -= matrix + (size_t)O;
        const float *in = layer == 0 ? a->records.input : a->hidden[layer - 1];
        dense_backward_weights(gradients + at, gradients + at + matrix, dout, in, a->panel, B, I, O);
        if (layer == 0) return;
        float *din = a->back[layer % 2];
        dense_backward_input(din, dout, weights + at, a->panel, B, I, O);
        activation_backward(m, a, layer - 1, din, B * I);
        dout = din;
    }
}

float output_value(const model *m, uint32_t column, float normalized) {
    return normalized / statistic_scale(m->output_statistics, column) + statistic_mean(m->output_statistics, column);
}

static void score_values(const model *m, const float *outputs, const float *values, score *total) {
    double square = 0, distance = 0;
    for (uint32_t o = 0; o < m->outputs; o++) {
        double difference = (double)outputs[o] - values[o];
        square += difference * difference;
        distance += (difference < 0 ? -difference : difference) / statistic_scale(m->output_statistics, o);
    }
    total->loss += square / m->outputs;
    total->absolute += distance / m->outputs;
}

void network_score(const model *m, const activations *a, score *total, int B) {
    int C = (int)m->outputs;
    if (!m->regression) softmax_forward(a->doutputs, a->outputs, B, C);
    for (int b = 0; b < B; b++) {
        const float *outputs = a->outputs + (size_t)b * m->outputs;
        total->records += 1;
        if (m->regression) {
            score_values(m, outputs, a->records.values + (size_t)b * m->outputs, total);
        } else {
            total->loss += cross_entropy(outputs, (int)a->records.labels[b], C);
            total->correct += largest(outputs, C) == (int)a->records.labels[b];
        }
    }
}
