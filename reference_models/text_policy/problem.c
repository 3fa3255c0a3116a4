#include "problem.h"

#include "../lib/rng.h"

problem problem_draw(uint64_t seed, uint64_t unit, uint32_t largest) {
    rng r = rng_start(seed, unit);
    problem p = {.left = rng_below(&r, largest + 1), .right = rng_below(&r, largest + 1)};
    p.answers_seed = rng_next(&r);
    return p;
}

static uint32_t write_number(uint32_t number, uint8_t *out) {
    uint32_t digits = 1;
    for (uint32_t left = number / 10; left > 0; left /= 10) digits++;
    for (uint32_t i = digits; i-- > 0; number /= 10) out[i] = (uint8_t)('0' + number % 10);
    return digits;
}

uint32_t problem_question(const problem *p, uint8_t *out) {
    uint32_t bytes = write_number(p->left, out);
    out[bytes++] = '+';
    bytes += write_number(p->right, out + bytes);
    out[bytes++] = '=';
    return bytes;
}

bool problem_is_answered(const problem *p, const uint8_t *text, uint32_t bytes) {
    uint8_t answer[ANSWER_BYTES];
    if (write_number(p->left + p->right, answer) != bytes) return false;
    for (uint32_t i = 0; i < bytes; i++)
        if (text[i] != answer[i]) return false;
    return true;
}
