// Continuing a text, token by token.
#ifndef TRANSFORMER_GENERATE_H
#define TRANSFORMER_GENERATE_H

#include "../lib/rng.h"
#include "network.h"

typedef struct {
    uint32_t most_tokens;
    double temperature;  // 0 = the first largest logit
    uint32_t top_k;      // 0 = all tokens
    uint64_t seed;
    int64_t end_token;   // -1 = never stop early
} generation;

// Bytes of scratch for choosing among these tokens.
uint64_t generate_scratch(const sizes *s);

// Chooses a token by its logits (V): each of the `top_k` largest with the chance of its softmax at this temperature.
// False with the error set when a logit is not finite.
bool choose_token(const sizes *s, const float *logits, double temperature, uint32_t top_k, void *scratch, rng *r,
                  uint32_t *token);

// Continues `t`, whose one span holds the prompt's last tokens (1 to context), and writes what follows, without the end
// token, to `out` (most_tokens). False with the error set when a logit is not finite.
bool generate(const sizes *s, float *block, tile *t, const generation *g, void *scratch, uint16_t *out,
              uint32_t *count, bool *ended);

#endif
