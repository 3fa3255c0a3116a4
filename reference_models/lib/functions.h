// exp, log and tanh from +, -, *, / and bit shifts only. IEEE 754 rounds those the same way on every
// engine, so results are equal bit for bit in each host and in the native tests; a C library's are not.
// Accuracy: a few units in the last place of a double, far below float32.
#ifndef WEEI_FUNCTIONS_H
#define WEEI_FUNCTIONS_H

#include <stdbool.h>

double weei_exp(double x);   // 0 below -708, infinity above 709; NaN stays NaN
double weei_log(double x);   // x finite, positive and normal
double weei_tanh(double x);

// Without looking at NaN's bits, which differ between engines: infinity and NaN both fail x - x == 0.
static inline bool is_finite(double x) { return x - x == 0; }

double power_of_two(int exponent);  // -1022 to 1023

// tanh in float32 arithmetic, for inner loops: a loop over an array becomes SIMD. x P(x^2) / Q(x^2) with
// coefficients fitted to |x| <= 7.9, where tanh is within 2.8e-7 of 1; off by at most 3.6e-7 of its value,
// and never 1 or above. NaN stays NaN.
static inline float tanh_float(float x) {
    x = x > 7.9f ? 7.9f : x;
    x = x < -7.9f ? -7.9f : x;
    float s = x * x;
    float p = 0x1.090d0ap-26f, q = 0x1.cda4dap-21f;
    p = p * s + 0x1.717d2ep-16f;
    p = p * s + 0x1.d51b14p-9f;
    p = p * s + 0x1.1377fep-3f;
    p = p * s + 1;
    q = q * s + 0x1.66fef6p-12f;
    q = q * s + 0x1.ad2238p-6f;
    q = q * s + 0x1.df1150p-2f;
    q = q * s + 1;
    return x * p / q;
}

#endif
