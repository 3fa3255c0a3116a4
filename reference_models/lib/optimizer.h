// One step on a range of parameters. `decay` is decoupled from the gradient (Loshchilov and Hutter 2019): rate * decay
// of each weight is taken off it. All float32.
#ifndef WEEI_OPTIMIZER_H
#define WEEI_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

// Euclidean norm of all gradients together, summed in doubles.
double gradient_norm(const float *gradient, size_t n);  // (n)

// What the gradients are multiplied by, so that their norm is at most `limit`; a limit of 0 never clips.
float clip_factor(double norm, double limit);

typedef struct {
    double beta1, beta2, epsilon;
    double beta1_left, beta2_left;  // beta^steps
} adamw;

adamw adamw_start(double beta1, double beta2, double epsilon);
void adamw_count_step(adamw *state);  // once before the ranges of a step

void adamw_step(const adamw *state,
                float *weights,         // (n)
                float *mean,            // (n) of the gradient, 0 to start with
                float *square,          // (n) of its square, 0 to start with
                const float *gradient,  // (n)
                float factor,           // of clip_factor
                double rate, double decay, size_t n);

void sgd_step(float *weights,         // (n)
              const float *gradient,  // (n)
              float factor, double rate, double decay, size_t n);

#endif
