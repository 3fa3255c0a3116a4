#include "nn.h"

#include <stddef.h>

#include "functions.h"

// Four floats, one SIMD128 register. Rows of odd length put them on any multiple of four bytes.
typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
enum { LANES = 4 };

// out += factor * in over n values. Lanes are different outputs, never parts of one sum: the order in
// which an output collects its terms is that of the plain loop.
static void add_scaled(float *restrict out, const float *restrict in, float factor, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) *(f32x4 *)(out + i) += factor * *(const f32x4 *)(in + i);
    for (; i < n; i++) out[i] += factor * in[i];
}

void linear_forward(float *out, const float *in, const float *weight, const float *bias, int B, int I, int O) {
    for (int b = 0; b < B; b++) {
        float *row = out + (size_t)b * O;
        for (int o = 0; o < O; o++) row[o] = bias[o];
        for (int i = 0; i < I; i++) add_scaled(row, weight + (size_t)i * O, in[(size_t)b * I + i], O);
    }
}

void linear_backward(float *din, float *dweight, float *dbias, const float *dout, const float *in, const float *weight,
                     int B, int I, int O) {
    for (int b = 0; b < B; b++) {
        const float *drow = dout + (size_t)b * O;
        add_scaled(dbias, drow, 1, O);
        for (int i = 0; i < I; i++) add_scaled(dweight + (size_t)i * O, drow, in[(size_t)b * I + i], O);
        if (din == NULL) continue;
        for (int i = 0; i < I; i++) {
            float sum = 0;
            for (int o = 0; o < O; o++) sum += drow[o] * weight[(size_t)i * O + o];
            din[(size_t)b * I + i] = sum;
        }
    }
}

void tanh_forward(float *out, const float *in, int n) {
    for (int i = 0; i < n; i++) out[i] = (float)weei_tanh(in[i]);
}

// d tanh(x) / dx = 1 - tanh(x)^2, so the output is all that must be kept.
void tanh_backward(float *din, const float *dout, const float *out, int n) {
    for (int i = 0; i < n; i++) din[i] = dout[i] * (1 - out[i] * out[i]);
}

int largest(const float *values, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

// Sum of e^(logit - largest): at least 1, so neither the division nor the logarithm can fail.
static double exponential_sum(const float *logits, float top, int C) {
    double sum = 0;
    for (int c = 0; c < C; c++) sum += weei_exp((double)logits[c] - top);
    return sum;
}

void softmax_forward(float *probabilities, const float *logits, int B, int C) {
    for (int b = 0; b < B; b++, logits += C, probabilities += C) {
        float top = logits[largest(logits, C)];
        double sum = exponential_sum(logits, top, C);
        for (int c = 0; c < C; c++) probabilities[c] = (float)(weei_exp((double)logits[c] - top) / sum);
    }
}

void softmax_cross_entropy_backward(float *dlogits, const float *probabilities, const uint8_t *labels, float scale,
                                    int B, int C) {
    for (int b = 0; b < B; b++)
        for (int c = 0; c < C; c++) {
            float target = c == labels[b] ? 1 : 0;
            dlogits[(size_t)b * C + c] = scale * (probabilities[(size_t)b * C + c] - target);
        }
}

double cross_entropy(const float *logits, int label, int C) {
    float top = logits[largest(logits, C)];
    double sum = exponential_sum(logits, top, C);
    // An infinite or NaN logit makes the sum NaN, whose logarithm is not defined; the difference is NaN too.
    return is_finite(sum) ? weei_log(sum) - ((double)logits[label] - top) : sum;
}

void momentum_step(float *weights, float *velocity, const float *gradient, float rate, float momentum, int n) {
    for (int i = 0; i < n; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        weights[i] -= rate * velocity[i];
    }
}

static const double ADAM_MEAN = 0.9, ADAM_SQUARE = 0.999, ADAM_EPSILON = 1e-8;

void adam_start(adam *state, int n) {
    for (int i = 0; i < n; i++) state->mean[i] = state->square[i] = 0;
    state->mean_left = state->square_left = 1;
}

void adam_step(float *weights, adam *state, const float *gradient, float rate, int n) {
    state->mean_left *= ADAM_MEAN;
    state->square_left *= ADAM_SQUARE;
    for (int i = 0; i < n; i++) {
        double g = gradient[i];
        double mean = ADAM_MEAN * state->mean[i] + (1 - ADAM_MEAN) * g;
        double square = ADAM_SQUARE * state->square[i] + (1 - ADAM_SQUARE) * g * g;
        state->mean[i] = (float)mean;
        state->square[i] = (float)square;
        double size = __builtin_sqrt(square / (1 - state->square_left)) + ADAM_EPSILON;
        weights[i] -= (float)(rate * (mean / (1 - state->mean_left)) / size);
    }
}
