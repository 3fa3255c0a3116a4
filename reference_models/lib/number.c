#include "number.h"

#include "functions.h"

// A natural number of at most 1,280 bits, least significant limb first. 17 digits times 10^307, shifted
// to align two of them, stays below 1,150 bits.
enum { LIMBS = 40 };
typedef struct {
    uint32_t limb[LIMBS];
} big;

static big big_from(uint64_t value) { return (big){{(uint32_t)value, (uint32_t)(value >> 32)}}; }

static void big_multiply(big *number, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)number->limb[i] * factor;
        number->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static int big_bits(const big *number) {
    int i = LIMBS - 1;
    while (i > 0 && number->limb[i] == 0) i--;
    int bits = i * 32;
    for (uint32_t top = number->limb[i]; top != 0; top >>= 1) bits++;
    return bits;
}

static bool big_less(const big *a, const big *b) {
    int i = LIMBS - 1;
    while (i > 0 && a->limb[i] == b->limb[i]) i--;
    return a->limb[i] < b->limb[i];
}

static void big_subtract(big *a, const big *b) {
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        uint64_t difference = (uint64_t)a->limb[i] - b->limb[i] - borrow;
        a->limb[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

static bool big_is_zero(const big *number) { return big_bits(number) == 0; }

// Long division, bit by bit, of mantissa * 10^e by 1 or of mantissa by 10^-e. 56 quotient bits are at
// least two more than a double holds; the lowest also remembers whether anything is left, so that the
// conversion at the end rounds as if it had all of them.
bool decimal_to_double(uint64_t mantissa, int exponent, double *value) {
    *value = 0;
    if (mantissa == 0) return true;
    int magnitude = exponent;  // floor(log10(value))
    for (uint64_t rest = mantissa; rest >= 10; rest /= 10) magnitude++;
    if (magnitude < -290 || magnitude >= 290) return false;

    big above = big_from(mantissa), below = big_from(1);
    for (int i = 0; i < exponent; i++) big_multiply(&above, 10);
    for (int i = 0; i > exponent; i--) big_multiply(&below, 10);
    int shift = big_bits(&below) - big_bits(&above);  // afterwards above / below is between 1/2 and 2
    for (int i = 0; i < shift; i++) big_multiply(&above, 2);
    for (int i = 0; i > shift; i--) big_multiply(&below, 2);

    uint64_t quotient = 0;
    for (int i = 0; i < 56; i++) {
        quotient <<= 1;
        if (!big_less(&above, &below)) {
            big_subtract(&above, &below);
            quotient |= 1;
        }
        big_multiply(&above, 2);
    }
    if (!big_is_zero(&above)) quotient |= 1;
    *value = (double)quotient * power_of_two(-55 - shift);
    return true;
}

uint32_t integer_to_text(uint64_t value, char text[NUMBER_TEXT]) {
    char reversed[NUMBER_TEXT];
    uint32_t length = 0;
    do {
        reversed[length++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (uint32_t i = 0; i < length; i++) text[i] = reversed[length - 1 - i];
    return length;
}

// Finds n and e with value = n * 10^(e - 8) and n of nine digits. Each of the at most 300 scalings rounds
// once: an error in the thirteenth digit at worst, and the same one everywhere.
static uint64_t nine_digits(double value, int *exponent) {
    int e = 0;
    double scaled = value;
    while (scaled >= 1e9) scaled /= 10, e++;
    while (scaled < 1e8) scaled *= 10, e--;
    uint64_t digits = (uint64_t)(scaled + 0.5);
    if (digits == 1000000000) digits /= 10, e++;
    *exponent = e + 8;
    return digits;
}

uint32_t double_to_text(double value, char text[NUMBER_TEXT]) {
    uint32_t length = 0;
    if (value < 0) text[length++] = '-', value = -value;
    if (value == 0) {
        text[0] = '0';
        return 1;
    }
    int exponent;
    char digits[NUMBER_TEXT];
    int count = (int)integer_to_text(nine_digits(value, &exponent), digits);
    while (count > 1 && digits[count - 1] == '0') count--;

    bool scientific = exponent < -6 || exponent > 8;
    int point = scientific ? 0 : exponent;  // the point stands behind this digit
    if (point < 0) text[length++] = '0', text[length++] = '.';
    for (int zeros = point + 1; zeros < 0; zeros++) text[length++] = '0';
    for (int i = 0; i < count || i <= point; i++) {
        text[length++] = i < count ? digits[i] : '0';
        if (i == point && i + 1 < count) text[length++] = '.';
    }
    if (scientific) {
        text[length++] = 'e';
        if (exponent < 0) text[length++] = '-';
        length += integer_to_text((uint64_t)(exponent < 0 ? -exponent : exponent), text + length);
    }
    return length;
}
