// Layers as forward/backward pairs. Shapes stand beside each pointer: B records, I inputs, O outputs,
// all row by row. Every sum has one fixed order, whatever the vector width, so that results are equal
// bit for bit on every engine. The backward functions add to the gradients of parameters.
#ifndef WEEI_NN_H
#define WEEI_NN_H

#include <stdint.h>

void linear_forward(float *out,           // (B, O)
                    const float *in,      // (B, I)
                    const float *weight,  // (I, O)
                    const float *bias,    // (O)
                    int B, int I, int O);

// `din` may be NULL when the layer's input is data.
void linear_backward(float *din,           // (B, I)
                     float *dweight,       // (I, O), added to
                     float *dbias,         // (O), added to
                     const float *dout,    // (B, O)
                     const float *in,      // (B, I)
                     const float *weight,  // (I, O)
                     int B, int I, int O);

void tanh_forward(float *out, const float *in, int n);                      // both (n)
void tanh_backward(float *din, const float *dout, const float *out, int n);  // all (n)

void softmax_forward(float *probabilities, const float *logits, int B, int C);  // both (B, C)

// Softmax and cross-entropy together: `scale` is 1 / records of the whole batch.
void softmax_cross_entropy_backward(float *dlogits,              // (B, C)
                                    const float *probabilities,  // (B, C)
                                    const uint8_t *labels,       // (B)
                                    float scale, int B, int C);

// -log of the label's probability, from logits (C): exact where the probability underflows.
double cross_entropy(const float *logits, int label, int C);

int largest(const float *values, int n);  // index of the first largest

// v = momentum v + g; w = w - rate v; all (n).
void momentum_step(float *weights, float *velocity, const float *gradient, float rate, float momentum, int n);

// The running means of Adam (Kingma and Ba 2015) and how far they have been filled; zero to start with.
typedef struct {
    float *mean;    // (n) of the gradient
    float *square;  // (n) of its square
    double mean_left, square_left;  // beta^steps
} adam;
void adam_start(adam *state, int n);
void adam_step(float *weights, adam *state, const float *gradient, float rate, int n);

#endif
