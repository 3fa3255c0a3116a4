// Matrix products in float32 with SIMD128. Each element collects its terms in the order of the plain loop, from the
// first to the last, each product rounded before it is added: lanes are different elements, never parts of one sum. So
// every build returns the same bits, whatever its registers.
#ifndef WEEI_MATMUL_H
#define WEEI_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

// A matrix that is read: element (i, j) is at[i * stride + j], or at[j * stride + i] if transposed.
typedef struct {
    const float *at;
    size_t stride;
    bool transposed;
} matrix;

static inline matrix rows_of(const float *at, size_t stride) { return (matrix){at, stride, false}; }
static inline matrix transposed(const float *at, size_t stride) { return (matrix){at, stride, true}; }

// What a sum begins with.
typedef enum {
    FROM_ZERO,
    FROM_BIAS,    // bias (N), the same in each row
    FROM_OUTPUT,  // what C holds: the product is added
} matmul_start;

// Which part of a product is asked for. For attention, where the part of a matrix right of its diagonal is zero.
typedef enum {
    WHOLE,
    LOWER_OUTPUT,  // C (n, n): nothing right of the diagonal is wanted, some of it may be written
    LOWER_LEFT,    // A (n, n) is zero right of its diagonal
    UPPER_LEFT,    // A (n, n) is zero left of its diagonal
} matmul_shape;

enum {
    MATMUL_ROWS = 4,   // a block of C that is summed in registers
    MATMUL_COLUMNS = 8,
};

// C = start + A B.
void matmul(float *c,      // (M, N), its rows `stride` apart
            size_t stride,
            matrix a,      // (M, K)
            matrix b,      // (K, N)
            const float *bias,  // (N), read with FROM_BIAS only
            float *panel,  // (K, MATMUL_COLUMNS) scratch
            int M, int N, int K, matmul_start start, matmul_shape shape);

#endif
