#include "rng.h"

// The finalizer of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
// generators", constants of Stafford's variant 13): a bijection in which each input bit moves
// about half of the output bits.
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static const uint64_t STEP = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio, odd: the counter visits all values

// The stream is mixed before it meets the seed; otherwise seed + 1 would be this seed's next stream.
rng rng_start(uint64_t seed, uint64_t stream) { return (rng){mix(seed ^ mix(stream + STEP)), 0}; }

uint64_t rng_next(rng *r) { return mix(r->key + ++r->counter * STEP); }

uint32_t rng_below(rng *r, uint32_t bound) {
    // (2^64 - bound) mod bound = 2^64 mod bound: the numbers below it are the ones drawn once too often.
    uint64_t surplus = (0 - (uint64_t)bound) % bound;
    uint64_t x = rng_next(r);
    while (x < surplus) x = rng_next(r);
    return (uint32_t)(x % bound);
}

// 24 bits are what a float holds exactly, so no rounding can reach the upper limit.
float rng_uniform(rng *r, float limit) {
    int32_t centred = (int32_t)(rng_next(r) >> 40) - (1 << 23);
    return limit * ((float)centred * 0x1p-23f);
}

void rng_shuffle(rng *r, uint32_t *items, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = rng_below(r, i);
        uint32_t kept = items[i - 1];
        items[i - 1] = items[other];
        items[other] = kept;
    }
}
