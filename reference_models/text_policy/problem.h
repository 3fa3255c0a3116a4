// The problems: sums of two numbers, drawn from a unit's number and its assignment's seed.
#ifndef TEXT_POLICY_PROBLEM_H
#define TEXT_POLICY_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MOST_OPERAND = 999999999,
    QUESTION_BYTES = 20,  // of the longest: 999999999+999999999=
    ANSWER_BYTES = 10,
};

typedef struct {
    uint32_t left, right;
    uint64_t answers_seed;  // for what is drawn to answer it
} problem;

// Both numbers are uniform on 0 to `largest`.
problem problem_draw(uint64_t seed, uint64_t unit, uint32_t largest);

// "37+48=", not terminated; returns its length. `out` has room for QUESTION_BYTES.
uint32_t problem_question(const problem *p, uint8_t *out);

bool problem_is_answered(const problem *p, const uint8_t *text, uint32_t bytes);  // by exactly this text

#endif
