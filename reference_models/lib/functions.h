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

#endif
