#include "optimizer.h"

#include "vector.h"

double gradient_norm(const float *gradient, size_t n) {
    double lanes[LANES] = {0};
    for (size_t i = 0; i < n; i++) lanes[i % LANES] += (double)gradient[i] * gradient[i];
    return __builtin_sqrt((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
}

float clip_factor(double norm, double limit) { return limit > 0 && norm > limit ? (float)(limit / norm) : 1; }

adamw adamw_start(double beta1, double beta2, double epsilon) {
    return (adamw){beta1, beta2, epsilon, 1, 1};
}

void adamw_count_step(adamw *state) {
    state->beta1_left *= state->beta1;
    state->beta2_left *= state->beta2;
}

// The constants of a step, rounded once.
typedef struct {
    f32x4 factor, beta1, rest1, beta2, rest2, keep, size, root, epsilon;
} constants;

static inline void adamw_four(const constants *c, f32x4 *w, f32x4 *m, f32x4 *v, f32x4 g) {
    g *= c->factor;
    *m = c->beta1 * *m + c->rest1 * g;
    *v = c->beta2 * *v + c->rest2 * g * g;
    *w = c->keep * *w - c->size * *m / (sqrt4(*v) * c->root + c->epsilon);
}

// Both means are divided by 1 - beta^steps, what of them is filled: the first in `size`, the second in `root`.
void adamw_step(const adamw *s, float *weights, float *mean, float *square, const float *gradient, float factor,
                double rate, double decay, size_t n) {
    const constants c = {
        .factor = splat4(factor),
        .beta1 = splat4((float)s->beta1),
        .rest1 = splat4((float)(1 - s->beta1)),
        .beta2 = splat4((float)s->beta2),
        .rest2 = splat4((float)(1 - s->beta2)),
        .keep = splat4((float)(1 - rate * decay)),
        .size = splat4((float)(rate / (1 - s->beta1_left))),
        .root = splat4((float)(1 / __builtin_sqrt(1 - s->beta2_left))),
        .epsilon = splat4((float)s->epsilon),
    };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f32x4 w = load4(weights + i), m = load4(mean + i), v = load4(square + i);
        adamw_four(&c, &w, &m, &v, load4(gradient + i));
        store4(weights + i, w);
        store4(mean + i, m);
        store4(square + i, v);
    }
    for (; i < n; i++) {
        f32x4 w = splat4(weights[i]), m = splat4(mean[i]), v = splat4(square[i]);
        adamw_four(&c, &w, &m, &v, splat4(gradient[i]));
        weights[i] = w[0];
        mean[i] = m[0];
        square[i] = v[0];
    }
}

void sgd_step(float *restrict weights, const float *restrict gradient, float factor, double rate, double decay,
              size_t n) {
    float step = (float)(rate * factor), keep = (float)(1 - rate * decay);
    for (size_t i = 0; i < n; i++) weights[i] = keep * weights[i] - step * gradient[i];
}
