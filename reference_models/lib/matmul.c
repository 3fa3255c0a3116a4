#include "matmul.h"

#include "vector.h"

#define INLINE static inline __attribute__((always_inline))

// Columns [j, j + MATMUL_COLUMNS) of B as rows of the panel; what is right of B's last column becomes 0.
static void pack(float *panel, const matrix *b, int j, int columns, int K) {
    if (columns < MATMUL_COLUMNS)
        for (int i = 0; i < K * MATMUL_COLUMNS; i++) panel[i] = 0;
    if (!b->transposed) {
        const float *from = b->at + j;
        for (int k = 0; k < K; k++, from += b->stride, panel += MATMUL_COLUMNS) {
            if (columns == MATMUL_COLUMNS) {
                store4(panel, load4(from));
                store4(panel + LANES, load4(from + LANES));
            } else {
                for (int n = 0; n < columns; n++) panel[n] = from[n];
            }
        }
        return;
    }
    const float *from = b->at + (size_t)j * b->stride;
    int k = 0, n = 0;
    for (; n + LANES <= columns; n += LANES, from += LANES * b->stride) {
        for (k = 0; k + LANES <= K; k += LANES) {  // 4 x 4 values at a time
            f32x4 r0 = load4(from + k), r1 = load4(from + b->stride + k);
            f32x4 r2 = load4(from + 2 * b->stride + k), r3 = load4(from + 3 * b->stride + k);
            f32x4 low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
            f32x4 low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
            f32x4 high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
            f32x4 high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
            float *to = panel + (size_t)k * MATMUL_COLUMNS + n;
            store4(to, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
            store4(to + MATMUL_COLUMNS, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
            store4(to + 2 * MATMUL_COLUMNS, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
            store4(to + 3 * MATMUL_COLUMNS, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
        }
        for (; k < K; k++)
            for (int i = 0; i < LANES; i++) panel[(size_t)k * MATMUL_COLUMNS + n + i] = from[(size_t)i * b->stride + k];
    }
    for (; n < columns; n++, from += b->stride)
        for (k = 0; k < K; k++) panel[(size_t)k * MATMUL_COLUMNS + n] = from[k];
}

// `rows` x MATMUL_COLUMNS values of C in registers; `rows` is a constant wherever this is called. Element (i, k) of A
// is a[i * row + k * step]. `start` is NULL or has its rows `start_row` apart.
INLINE void block(int rows, float *c, size_t stride, const float *start, size_t start_row, const float *a, size_t row,
                  size_t step, const float *panel, int K) {
    f32x4 sum[MATMUL_ROWS][2];
    for (int i = 0; i < rows; i++) {
        sum[i][0] = start == NULL ? splat4(0) : load4(start + i * start_row);
        sum[i][1] = start == NULL ? splat4(0) : load4(start + i * start_row + LANES);
    }
    for (int k = 0; k < K; k++, a += step, panel += MATMUL_COLUMNS) {
        f32x4 left = load4(panel), right = load4(panel + LANES);
        for (int i = 0; i < rows; i++) {
            f32x4 factor = splat4(a[i * row]);
            sum[i][0] += factor * left;
            sum[i][1] += factor * right;
        }
    }
    for (int i = 0; i < rows; i++) {
        store4(c + i * stride, sum[i][0]);
        store4(c + i * stride + LANES, sum[i][1]);
    }
}

INLINE void rows_block(int rows, float *c, size_t stride, const float *start, size_t start_row, const float *a,
                       size_t row, size_t step, const float *panel, int K) {
    switch (rows) {
        case 4: block(4, c, stride, start, start_row, a, row, step, panel, K); break;
        case 3: block(3, c, stride, start, start_row, a, row, step, panel, K); break;
        case 2: block(2, c, stride, start, start_row, a, row, step, panel, K); break;
        default: block(1, c, stride, start, start_row, a, row, step, panel, K);
    }
}

// A panel's last columns may lie right of C: the block is summed aside.
INLINE void narrow_block(int rows, int columns, float *c, size_t stride, const float *start, size_t start_row,
                         const float *a, size_t row, size_t step, const float *panel, int K) {
    float aside[MATMUL_ROWS * MATMUL_COLUMNS] = {0};
    if (start != NULL)
        for (int i = 0; i < rows; i++)
            for (int n = 0; n < columns; n++) aside[i * MATMUL_COLUMNS + n] = start[i * start_row + n];
    rows_block(rows, aside, MATMUL_COLUMNS, aside, MATMUL_COLUMNS, a, row, step, panel, K);
    for (int i = 0; i < rows; i++)
        for (int n = 0; n < columns; n++) c[i * stride + n] = aside[i * MATMUL_COLUMNS + n];
}

INLINE void multiply(float *c, size_t stride, const float *a, size_t row, size_t step, const matrix *b,
                     const float *start, size_t start_row, float *panel, int M, int N, int K, matmul_shape shape) {
    for (int j = 0; j < N; j += MATMUL_COLUMNS) {
        int columns = N - j < MATMUL_COLUMNS ? N - j : MATMUL_COLUMNS;
        pack(panel, b, j, columns, K);
        for (int i = shape == LOWER_OUTPUT ? j : 0; i < M; i += MATMUL_ROWS) {
            int rows = M - i < MATMUL_ROWS ? M - i : MATMUL_ROWS;
            int from = shape == UPPER_LEFT ? i : 0, to = shape == LOWER_LEFT ? i + rows : K;
            float *block_c = c + i * stride + j;
            const float *block_start = start == NULL ? NULL : start + i * start_row + j;
            const float *block_a = a + i * row + from * step, *block_panel = panel + (size_t)from * MATMUL_COLUMNS;
            if (columns == MATMUL_COLUMNS)
                rows_block(rows, block_c, stride, block_start, start_row, block_a, row, step, block_panel, to - from);
            else
                narrow_block(rows, columns, block_c, stride, block_start, start_row, block_a, row, step, block_panel,
                             to - from);
        }
    }
}

void matmul(float *c, size_t stride, matrix a, matrix b, const float *bias, float *panel, int M, int N, int K,
            matmul_start start, matmul_shape shape) {
    const float *first = start == FROM_OUTPUT ? c : start == FROM_BIAS ? bias : NULL;
    size_t first_row = start == FROM_OUTPUT ? stride : 0;
    // Two copies of the same loops, so that one of A's strides is the constant 1.
    if (a.transposed) multiply(c, stride, a.at, 1, a.stride, &b, first, first_row, panel, M, N, K, shape);
    else multiply(c, stride, a.at, a.stride, 1, &b, first, first_row, panel, M, N, K, shape);
}
