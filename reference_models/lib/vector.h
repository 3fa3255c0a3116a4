// Four floats, one SIMD128 register. Operators work lane by lane and round as the scalar ones do, so that the same
// source gives the same bits in WebAssembly and natively.
#ifndef WEEI_VECTOR_H
#define WEEI_VECTOR_H

#include <stdint.h>

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

// Rows of odd length put values on any multiple of four bytes.
typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t i32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t u32x4 __attribute__((vector_size(16), aligned(4), may_alias));
enum { LANES = 4 };

static inline f32x4 load4(const float *at) { return *(const f32x4 *)at; }
static inline void store4(float *at, f32x4 v) { *(f32x4 *)at = v; }
static inline f32x4 splat4(float x) { return (f32x4){x, x, x, x}; }

static inline f32x4 sqrt4(f32x4 v) {  // rounded correctly, everywhere
#if defined(__wasm_simd128__)
    return (f32x4)wasm_f32x4_sqrt((v128_t)v);
#elif defined(__SSE2__)
    return (f32x4)_mm_sqrt_ps((__m128)v);
#else
    return (f32x4){__builtin_sqrtf(v[0]), __builtin_sqrtf(v[1]), __builtin_sqrtf(v[2]), __builtin_sqrtf(v[3])};
#endif
}

// Lanes of `yes` where the mask is all ones, of `no` where it is 0.
static inline f32x4 select4(i32x4 mask, f32x4 yes, f32x4 no) {
    return (f32x4)((mask & (i32x4)yes) | (~mask & (i32x4)no));
}

// One fixed order: ((0 + 1) + (2 + 3)).
static inline float sum4(f32x4 v) { return (v[0] + v[1]) + (v[2] + v[3]); }

// e^x for x <= 0, off by at most 3e-7 of its value; 0 below -87. e^x = 2^n e^r with n the nearest integer to
// x / ln 2, found by adding 1.5 * 2^23, behind which a float has no fraction; ln 2 in two parts, the first short
// enough that n times it is exact; six terms of the Taylor series and the bits of 2^n. NaN stays NaN.
static inline f32x4 exp4(f32x4 x) {
    const f32x4 shift = splat4(0x1.8p23f);
    i32x4 small = (i32x4)(x < splat4(-87));
    f32x4 inside = select4(small, splat4(-87), x);
    f32x4 moved = inside * splat4(0x1.715476p0f) + shift;
    f32x4 n = moved - shift;
    f32x4 r = inside - n * splat4(0x1.62e4p-1f) - n * splat4(0x1.7f7d1cp-20f);
    f32x4 p = splat4(1.0f / 720);
    p = p * r + splat4(1.0f / 120);
    p = p * r + splat4(1.0f / 24);
    p = p * r + splat4(1.0f / 6);
    p = p * r + splat4(0.5f);
    p = p * r + splat4(1);
    p = p * r + splat4(1);
    u32x4 power = ((u32x4)moved + 127) << 23;  // the low bits of `moved` are n; those above fall out
    return select4(small, splat4(0), p * (f32x4)power);
}

#endif
