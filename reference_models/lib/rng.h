// Counter-based random numbers: the n-th number of a stream is a function of (seed, stream, n) in
// pure 64-bit integer arithmetic, so every engine draws the same ones and streams never interfere.
#ifndef WEEI_RNG_H
#define WEEI_RNG_H

#include <stdint.h>

typedef struct {
    uint64_t key;
    uint64_t counter;
} rng;

rng rng_start(uint64_t seed, uint64_t stream);
uint64_t rng_next(rng *r);
uint32_t rng_below(rng *r, uint32_t bound);  // uniform on 0 .. bound - 1, without modulo bias; bound > 0
float rng_uniform(rng *r, float limit);      // uniform on [-limit, limit), steps of limit * 2^-23
void rng_shuffle(rng *r, uint32_t *items, uint32_t count);  // Fisher-Yates from the last item down

#endif
