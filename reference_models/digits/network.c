#include "network.h"

#include "../lib/nn.h"
#include "../lib/rng.h"

parameters network_parameters(float *block) {
    // The size table of the weight file, in its order.
    static const int SIZES[] = {PIXELS * HIDDEN, HIDDEN, HIDDEN * DIGITS, DIGITS};
    parameters p;
    float **views[] = {&p.w1, &p.b1, &p.w2, &p.b2};
    for (int i = 0; i < 4; i++) {
        *views[i] = block;
        block += SIZES[i];
    }
    return p;
}

// Uniform with limit sqrt(6 / (inputs + outputs)) keeps the size of activations and gradients from layer
// to layer (Glorot and Bengio 2010). The limits are 1/4 and 0.37796447.
void network_initialize(float *block, uint64_t seed) {
    parameters p = network_parameters(block);
    rng r = rng_start(seed, 0);
    for (int i = 0; i < PIXELS * HIDDEN; i++) p.w1[i] = rng_uniform(&r, 0.25f);
    for (int i = 0; i < HIDDEN; i++) p.b1[i] = 0;
    for (int i = 0; i < HIDDEN * DIGITS; i++) p.w2[i] = rng_uniform(&r, 0.37796447f);
    for (int i = 0; i < DIGITS; i++) p.b2[i] = 0;
}

void network_forward(const parameters *p, activations *a, int B) {
    linear_forward(a->hidden_sums, a->input, p->w1, p->b1, B, PIXELS, HIDDEN);
    tanh_forward(a->hidden, a->hidden_sums, B * HIDDEN);
    linear_forward(a->logits, a->hidden, p->w2, p->b2, B, HIDDEN, DIGITS);
    softmax_forward(a->probabilities, a->logits, B, DIGITS);
}

void network_backward(const parameters *p, const parameters *gradients, const activations *a, float scale, int B) {
    static float dlogits[TILE * DIGITS];       // (B, DIGITS)
    static float dhidden[TILE * HIDDEN];       // (B, HIDDEN)
    static float dhidden_sums[TILE * HIDDEN];  // (B, HIDDEN)
    softmax_cross_entropy_backward(dlogits, a->probabilities, a->labels, scale, B, DIGITS);
    linear_backward(dhidden, gradients->w2, gradients->b2, dlogits, a->hidden, p->w2, B, HIDDEN, DIGITS);
    tanh_backward(dhidden_sums, dhidden, a->hidden, B * HIDDEN);
    linear_backward(NULL, gradients->w1, gradients->b1, dhidden_sums, a->input, p->w1, B, PIXELS, HIDDEN);
}

void network_score(const activations *a, score *total, int B) {
    for (int b = 0; b < B; b++) {
        const float *logits = a->logits + b * DIGITS;
        total->loss += cross_entropy(logits, a->labels[b], DIGITS);
        total->correct += largest(logits, DIGITS) == a->labels[b];
        total->records += 1;
    }
}
