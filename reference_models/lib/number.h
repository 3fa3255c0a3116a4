// Decimal text <-> double, exact where it matters: every host must read the same learning rate.
#ifndef WEEI_NUMBER_H
#define WEEI_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

// The double nearest to mantissa * 10^exponent (ties to even), for mantissa < 10^17.
// False when the value is neither 0 nor between 1e-290 and 1e290 in size.
bool decimal_to_double(uint64_t mantissa, int exponent, double *value);

enum { NUMBER_TEXT = 32 };

// Nine significant digits, trailing zeros dropped, as JSON text. Returns its length; `value` is finite.
uint32_t double_to_text(double value, char text[NUMBER_TEXT]);

uint32_t integer_to_text(uint64_t value, char text[NUMBER_TEXT]);

#endif
