// Answers to one question, sampled side by side.
#ifndef TEXT_POLICY_ANSWERS_H
#define TEXT_POLICY_ANSWERS_H

#include "../transformer/generate.h"

typedef struct {
    uint16_t *tokens;      // (question + longest) the question's, then the answer's with the end token
    double *before;        // (longest) log-probabilities of the answer's tokens when they were sampled
    double *reference;     // (longest) and under the reference
    double advantage;      // first the reward
    uint32_t question, length;  // tokens
    bool ended;            // its last token is the end
} answer;

typedef struct {
    const sizes *s;
    float *block;       // the weights
    tile *t;
    void *candidates;   // (generate_scratch)
    double temperature;  // 0 = the likeliest tokens
    uint32_t end_token, longest;
} sampler;

// Continues the `question` that stands in the first of the answers, and copies it to all of them. Each answer has its
// own stream of random numbers. False with the error set when a logit is not finite.
bool answers_sample(const sampler *how, uint64_t seed, answer *answers, uint32_t count);

#endif
