#include "functions.h"

#include <stdint.h>

// ln 2 in two parts: the first has its low 32 bits zero, so that n * LN2_HIGH is exact for |n| < 2^11.
static const double LN2_HIGH = 0x1.62e42feep-1;
static const double LN2_LOW = 0x1.a39ef35793c76p-33;
static const double LOG2_E = 0x1.71547652b82fep+0;

typedef union {
    double value;
    uint64_t bits;
} double_bits;

double power_of_two(int exponent) {
    double_bits d = {.bits = (uint64_t)(exponent + 1023) << 52};
    return d.value;
}

// e^x = 2^n e^r with n the nearest integer to x / ln 2, so |r| <= ln 2 / 2 and thirteen terms of the
// Taylor series leave less than 2^-58.
double weei_exp(double x) {
    if (x < -708) return 0;
    if (x > 709) return 0x1p1023 * 2;
    if (!is_finite(x)) return x;
    int n = (int)(x * LOG2_E + (x < 0 ? -0.5 : 0.5));
    double r = x - n * LN2_HIGH - n * LN2_LOW;
    double sum = 1;
    for (int k = 13; k > 0; k--) sum = 1 + sum * r / k;
    return sum * power_of_two(n);
}

// x = 2^n m with m between sqrt(1/2) and sqrt(2); log m = 2 artanh(s), s = (m - 1) / (m + 1),
// |s| < 0.172, as the series s + s^3/3 + s^5/5 + ... to s^21.
double weei_log(double x) {
    double_bits d = {.value = x};
    int n = (int)(d.bits >> 52) - 1023;
    d.bits = (d.bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1023 << 52;
    double m = d.value;
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        n += 1;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 21; k > 0; k -= 2) sum = sum * square + 1.0 / k;
    return n * LN2_HIGH + (2 * s * sum + n * LN2_LOW);
}

// tanh x = 1 - 2 / (e^2x + 1) cancels near zero, where x - x^3/3 is better.
double weei_tanh(double x) {
    if (x > -1e-3 && x < 1e-3) return x - x * x * x / 3;
    return 1 - 2 / (weei_exp(2 * x) + 1);
}
