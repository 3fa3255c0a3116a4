#include "layers.h"

#include <stddef.h>

#include "functions.h"
#include "matmul.h"
#include "vector.h"

static void add_row(float *restrict out, const float *restrict in, int n) {
    for (int i = 0; i < n; i++) out[i] += in[i];
}

void dense_forward(float *out, const float *in, const float *weight, const float *bias, float *panel, int R, int I,
                   int O, bool add) {
    if (add)
        for (int r = 0; r < R; r++) add_row(out + (size_t)r * O, bias, O);
    matmul(out, O, rows_of(in, I), rows_of(weight, O), bias, panel, R, O, I, add ? FROM_OUTPUT : FROM_BIAS, WHOLE);
}

void dense_backward_input(float *din, const float *dout, const float *weight, float *panel, int R, int I, int O) {
    matmul(din, I, rows_of(dout, O), transposed(weight, O), NULL, panel, R, I, O, FROM_ZERO, WHOLE);
}

void dense_backward_weights(float *dweight, float *dbias, const float *dout, const float *in, float *panel, int R,
                            int I, int O) {
    for (int r = 0; r < R; r++) add_row(dbias, dout + (size_t)r * O, O);
    matmul(dweight, O, transposed(in, I), rows_of(dout, O), NULL, panel, I, O, R, FROM_OUTPUT, WHOLE);
}

void embedding_forward(float *out, const uint16_t *tokens, const float *token, const float *position, int R, int D,
                       int first) {
    for (int r = 0; r < R; r++) {
        const float *t = token + (size_t)tokens[r] * D, *p = position + (size_t)(first + r) * D;
        float *row = out + (size_t)r * D;
        for (int i = 0; i < D; i++) row[i] = t[i] + p[i];
    }
}

void embedding_backward(float *dtoken, float *dposition, const float *dout, const uint16_t *tokens, int R, int D) {
    for (int r = 0; r < R; r++) {
        add_row(dtoken + (size_t)tokens[r] * D, dout + (size_t)r * D, D);
        add_row(dposition + (size_t)r * D, dout + (size_t)r * D, D);
    }
}

// Sums run in four lanes that are joined at the end; what is left of a row comes behind them.
static float row_sum(const float *x, int n) {
    f32x4 lanes = splat4(0);
    int i = 0;
    for (; i + LANES <= n; i += LANES) lanes += load4(x + i);
    float sum = sum4(lanes);
    for (; i < n; i++) sum += x[i];
    return sum;
}

static const float NORM_EPSILON = 1e-5f;

typedef struct {
    float mean, inverse;  // 1 / standard deviation
} statistics;

static statistics row_statistics(const float *x, int n) {
    float mean = row_sum(x, n) / (float)n;
    f32x4 lanes = splat4(0);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        f32x4 d = load4(x + i) - splat4(mean);
        lanes += d * d;
    }
    float squares = sum4(lanes);
    for (; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (statistics){mean, 1 / sqrt4(splat4(squares / (float)n + NORM_EPSILON))[0]};
}

void norm_forward(float *out, const float *in, const float *gain, const float *bias, int R, int D) {
    for (int r = 0; r < R; r++, in += D, out += D) {
        statistics s = row_statistics(in, D);
        for (int i = 0; i < D; i++) out[i] = (in[i] - s.mean) * s.inverse * gain[i] + bias[i];
    }
}

// With x^ = (x - mean) inverse and d = dout gain: din = inverse (d - mean(d) - x^ mean(d x^)).
static void norm_row_backward(float *restrict din, float *restrict dgain, float *restrict dbias,
                              const float *restrict dout, const float *restrict in, const float *restrict gain, int D) {
    statistics s = row_statistics(in, D);
    f32x4 sums = splat4(0), products = splat4(0);
    int i = 0;
    for (; i + LANES <= D; i += LANES) {
        f32x4 d = load4(dout + i) * load4(gain + i);
        sums += d;
        products += d * ((load4(in + i) - splat4(s.mean)) * splat4(s.inverse));
    }
    float mean = sum4(sums), product = sum4(products);
    for (; i < D; i++) {
        float d = dout[i] * gain[i];
        mean += d;
        product += d * ((in[i] - s.mean) * s.inverse);
    }
    mean /= (float)D;
    product /= (float)D;
    for (i = 0; i < D; i++) {
        float normal = (in[i] - s.mean) * s.inverse;
        dgain[i] += dout[i] * normal;
        dbias[i] += dout[i];
        din[i] += s.inverse * (dout[i] * gain[i] - mean - normal * product);
    }
}

void norm_backward(float *din, float *dgain, float *dbias, const float *dout, const float *in, const float *gain,
                   int R, int D) {
    for (int r = 0; r < R; r++, din += D, dout += D, in += D) norm_row_backward(din, dgain, dbias, dout, in, gain, D);
}

// 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
static const float GELU_SCALE = 0.7978845608f, GELU_CUBE = 0.044715f;

static inline float gelu_tanh(float x) { return tanh_float(GELU_SCALE * (x + GELU_CUBE * x * x * x)); }

void gelu_forward(float *out, const float *in, int n) {
    for (int i = 0; i < n; i++) out[i] = 0.5f * in[i] * (1 + gelu_tanh(in[i]));
}

// In place, so that no pointer meets another and the loop becomes SIMD.
static void gelu_backward_in_place(float *restrict d, float *restrict out, const float *restrict in, int n) {
    for (int i = 0; i < n; i++) {
        float x = in[i], t = gelu_tanh(x), du = GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
        float slope = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * du;
        out[i] = 0.5f * x * (1 + t);
        d[i] *= slope;
    }
}

void gelu_backward(float *din, float *out, const float *dout, const float *in, int n) {
    if (din != dout)
        for (int i = 0; i < n; i++) din[i] = dout[i];
    gelu_backward_in_place(din, out, in, n);
}

void relu_forward(float *out, const float *in, int n) {
    for (int i = 0; i < n; i++) out[i] = in[i] < 0 ? 0 : in[i];
}

void relu_backward(float *din, const float *dout, const float *out, int n) {
    for (int i = 0; i < n; i++) din[i] = out[i] > 0 ? dout[i] : 0;
}

// Lanes j to j + 3 of a row that ends before `count`: all ones where they belong to it.
static inline i32x4 lanes_below(int j, int count) {
    return (i32x4)((i32x4){j, j + 1, j + 2, j + 3} < (i32x4){count, count, count, count});
}

static inline f32x4 larger4(f32x4 a, f32x4 b) { return select4((i32x4)(a < b), b, a); }

static float row_largest(const float *x, int n) {
    f32x4 most = splat4(x[0]);
    int i = 0;
    for (; i + LANES <= n; i += LANES) most = larger4(most, load4(x + i));
    float largest = most[0];
    for (int lane = 1; lane < LANES; lane++) largest = most[lane] > largest ? most[lane] : largest;
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

// The first `count` values of a row become the softmax of `scale` times them, the rest of it 0. `width` is a multiple
// of LANES.
static void softmax_row(float *x, int count, int width, float scale) {
    f32x4 top = splat4(row_largest(x, count)), sums = splat4(0);
    int j = 0;
    for (; j < count; j += LANES) {
        f32x4 e = select4(lanes_below(j, count), exp4((load4(x + j) - top) * splat4(scale)), splat4(0));
        store4(x + j, e);
        sums += e;
    }
    f32x4 inverse = splat4(1 / sum4(sums));
    for (int i = 0; i < j; i += LANES) store4(x + i, load4(x + i) * inverse);
    for (; j < width; j += LANES) store4(x + j, splat4(0));
}

// The gradient of softmax_row: dx becomes scale p (dx - sum(p dx)).
static void softmax_row_backward(float *dx, const float *p, int count, int width, float scale) {
    f32x4 sums = splat4(0);
    int j = 0;
    for (; j < count; j += LANES)
        sums += select4(lanes_below(j, count), load4(p + j) * load4(dx + j), splat4(0));
    f32x4 sum = splat4(sum4(sums));
    for (j = 0; j < count; j += LANES) {
        f32x4 d = load4(p + j) * (load4(dx + j) - sum) * splat4(scale);
        store4(dx + j, select4(lanes_below(j, count), d, splat4(0)));
    }
    for (; j < width; j += LANES) store4(dx + j, splat4(0));
}

// A square of scores has rows of whole panels.
static int score_width(int n) { return (n + MATMUL_COLUMNS - 1) / MATMUL_COLUMNS * MATMUL_COLUMNS; }

static int panel_rows(int n, int head_width) { return n > head_width ? n : head_width; }

uint64_t attention_scratch(int n, int head_width) {
    return 2 * (uint64_t)n * (uint64_t)score_width(n) + (uint64_t)panel_rows(n, head_width) * MATMUL_COLUMNS;
}

// Where the parts of one head begin in a record's rows of qkv or of its gradient.
typedef struct {
    size_t stride;
    size_t query, key, value;
} head_place;

static head_place place_of(int head, int width, int D) {
    size_t at = (size_t)head * width;
    return (head_place){3 * (size_t)D, at, at + D, at + 2 * (size_t)D};
}

static float score_scale(int width) { return 1 / sqrt4(splat4((float)width))[0]; }

// Softmax of the scaled scores of queries `first` to n - 1 with all keys.
static void attention_weights(float *weights,    // (n - first, score_width(n))
                              const float *qkv,  // (n, 3 D)
                              const head_place *at, float *panel, int n, int width, int first) {
    int rows = n - first, wide = score_width(n);
    const float *query = qkv + first * at->stride + at->query;
    matmul(weights, wide, rows_of(query, at->stride), transposed(qkv + at->key, at->stride), NULL, panel, rows, n,
           width, FROM_ZERO, first == 0 ? LOWER_OUTPUT : WHOLE);
    for (int i = 0; i < rows; i++) softmax_row(weights + (size_t)i * wide, first + i + 1, wide, score_scale(width));
}

void attention_forward(float *out, const float *qkv, float *scratch, int n, int D, int heads, int first, int apart) {
    int width = D / heads, wide = score_width(n);
    size_t stride = (size_t)D * apart;
    float *panel = scratch, *weights = panel + (size_t)panel_rows(n, width) * MATMUL_COLUMNS;
    for (int head = 0; head < heads; head++) {
        head_place at = place_of(head, width, D);
        at.stride *= (size_t)apart;
        attention_weights(weights, qkv, &at, panel, n, width, first);
        matmul(out + first * stride + at.query, stride, rows_of(weights, wide), rows_of(qkv + at.value, at.stride), NULL,
               panel, n - first, width, n, FROM_ZERO, first == 0 ? LOWER_LEFT : WHOLE);
    }
}

void attention_backward(float *dqkv, const float *dout, const float *qkv, float *scratch, int n, int D, int heads) {
    int width = D / heads, wide = score_width(n);
    float *panel = scratch, *weights = panel + (size_t)panel_rows(n, width) * MATMUL_COLUMNS;
    float *dscores = weights + (size_t)n * wide;  // first the gradient of the weights
    for (int head = 0; head < heads; head++) {
        head_place at = place_of(head, width, D);
        size_t stride = at.stride;
        const float *dhead = dout + at.query;
        attention_weights(weights, qkv, &at, panel, n, width, 0);
        matmul(dscores, wide, rows_of(dhead, D), transposed(qkv + at.value, stride), NULL, panel, n, n, width,
               FROM_ZERO, LOWER_OUTPUT);
        matmul(dqkv + at.value, stride, transposed(weights, wide), rows_of(dhead, D), NULL, panel, n, width, n,
               FROM_ZERO, UPPER_LEFT);
        for (int i = 0; i < n; i++)
            softmax_row_backward(dscores + (size_t)i * wide, weights + (size_t)i * wide, i + 1, wide,
                                 score_scale(width));
        matmul(dqkv + at.query, stride, rows_of(dscores, wide), rows_of(qkv + at.key, stride), NULL, panel, n, width, n,
               FROM_ZERO, LOWER_LEFT);
        matmul(dqkv + at.key, stride, transposed(dscores, wide), rows_of(qkv + at.query, stride), NULL, panel, n, width,
               n, FROM_ZERO, UPPER_LEFT);
    }
}

static bool is_first_largest(const float *x, int index, float largest) {
    if (x[index] != largest) return false;
    for (int i = 0; i < index; i++)
        if (x[i] == largest) return false;
    return true;
}

void softmax_loss(float *logits, bool *hit, const uint16_t *targets, float scale, int R, int V, token_score *score) {
    for (int r = 0; r < R; r++, logits += V) {
        float top = row_largest(logits, V), target = logits[targets[r]];
        hit[r] = is_first_largest(logits, targets[r], top);
        f32x4 sums = splat4(0);
        int i = 0;
        for (; i + LANES <= V; i += LANES) {
            f32x4 e = exp4(load4(logits + i) - splat4(top));
            store4(logits + i, e);
            sums += e;
        }
        float sum = sum4(sums);
        for (; i < V; i++) sum += logits[i] = exp4(splat4(logits[i] - top))[0];
        // An infinite or NaN logit makes the sum NaN, whose logarithm is not defined.
        score->loss += is_finite(sum) ? weei_log(sum) + ((double)top - target) : sum;
        score->targets++;
        score->correct += hit[r];
        float factor = scale / sum;
        for (i = 0; i < V; i++) logits[i] *= factor;
        logits[targets[r]] -= scale;
    }
}
