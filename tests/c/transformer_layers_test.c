// The layers of lib/layers.h and their matrix products: bits equal to the plainest loops, gradients equal to finite
// differences.
#include <math.h>
#include <string.h>

#include "../../reference_models/lib/layers.h"
#include "../../reference_models/lib/matmul.h"
#include "../../reference_models/lib/optimizer.h"
#include "../../reference_models/lib/rng.h"
#include "../../reference_models/lib/vector.h"
#include "check.h"

enum { MOST = 4096 };

static rng source;

static void randomize(float *at, int n, float limit) {
    for (int i = 0; i < n; i++) at[i] = rng_uniform(&source, limit);
}

static float element(const matrix *m, int i, int j) {
    return m->transposed ? m->at[(size_t)j * m->stride + i] : m->at[(size_t)i * m->stride + j];
}

// Zeros what the shape says is zero in A.
static void cut_left(float *a, const matrix *m, int n, matmul_shape shape) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if ((shape == LOWER_LEFT && j > i) || (shape == UPPER_LEFT && j < i))
                a[m->transposed ? (size_t)j * m->stride + i : (size_t)i * m->stride + j] = 0;
}

static void check_product(int M, int N, int K, bool turned_a, bool turned_b, matmul_start start, matmul_shape shape) {
    static float a[MOST], b[MOST], c[MOST], before[MOST], bias[64], panel[64 * MATMUL_COLUMNS];
    matrix left = turned_a ? transposed(a, (size_t)M + 3) : rows_of(a, (size_t)K + 3);
    matrix right = turned_b ? transposed(b, (size_t)K + 1) : rows_of(b, (size_t)N + 1);
    size_t stride = (size_t)N + 2;
    randomize(a, MOST, 1);
    randomize(b, MOST, 1);
    randomize(c, MOST, 1);
    randomize(bias, 64, 1);
    if (shape == LOWER_LEFT || shape == UPPER_LEFT) cut_left(a, &left, M, shape);
    memcpy(before, c, sizeof c);
    matmul(c, stride, left, right, bias, panel, M, N, K, start, shape);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            if (shape == LOWER_OUTPUT && j > i) continue;
            float sum = start == FROM_ZERO ? 0 : start == FROM_BIAS ? bias[j] : before[(size_t)i * stride + j];
            for (int k = 0; k < K; k++) sum += element(&left, i, k) * element(&right, k, j);
            CHECK(sum == c[(size_t)i * stride + j], "%d x %d x %d, turned %d %d, start %d, shape %d: (%d, %d)", M, N, K,
                  turned_a, turned_b, start, shape, i, j);
        }
        for (size_t j = (size_t)N; j < stride; j++)
            CHECK(c[(size_t)i * stride + j] == before[(size_t)i * stride + j], "written beside row %d", i);
    }
}

static void test_products_keep_the_order_of_the_plain_loop(void) {
    for (int M = 1; M <= 9; M++)
        for (int N = 1; N <= 17; N += M == 4 ? 1 : 4)
            for (int K = 1; K <= 9; K += 2)
                for (int turned = 0; turned < 4; turned++)
                    for (int start = FROM_ZERO; start <= FROM_OUTPUT; start++)
                        check_product(M, N, K, turned & 1, turned & 2, (matmul_start)start, WHOLE);
    for (int n = 1; n <= 21; n++)
        for (int turned = 0; turned < 4; turned++) {
            check_product(n, n, 3, turned & 1, turned & 2, FROM_ZERO, LOWER_OUTPUT);
            check_product(n, 5, n, turned & 1, turned & 2, FROM_ZERO, LOWER_LEFT);
            check_product(n, 11, n, turned & 1, turned & 2, FROM_OUTPUT, UPPER_LEFT);
        }
}

static void test_exponential_is_as_exact_as_it_says(void) {
    double worst = 0;
    for (int i = 0; i <= 870000; i++) {
        float x = -(float)i * 1e-4f;
        worst = fmax(worst, fabs(exp4(splat4(x))[i % LANES] / exp(x) - 1));
    }
    CHECK(worst < 3e-7, "off by %g", worst);
    CHECK(exp4(splat4(0))[0] == 1 && exp4(splat4(-87.01f))[1] == 0 && exp4(splat4(-INFINITY))[2] == 0, "ends");
    CHECK(isnan(exp4(splat4(NAN))[3]), "NaN");
}

// A function of one block of floats whose value is the sum of `weights` times its output, so that `weights` are the
// gradient of its output.
typedef struct {
    float *input;
    int n;
    double (*value)(void);
} function;

// Central differences; `step` and `tolerance` are for values of about 1.
static void check_gradient(const char *name, function f, const float *gradient) {
    const float step = 0x1p-7f;
    double largest = 0;
    for (int i = 0; i < f.n; i++) {
        float kept = f.input[i];
        f.input[i] = kept + step;
        double above = f.value();
        f.input[i] = kept - step;
        double below = f.value();
        f.input[i] = kept;
        double numeric = (above - below) / (2 * step);
        CHECK(fabs(numeric - gradient[i]) < 1e-3, "%s %d: %g, differences say %g", name, i, gradient[i], numeric);
        largest = fmax(largest, fabs(numeric));
    }
    CHECK(largest > 0.1, "%s: the test is blind, no gradient above %g", name, largest);
}

enum { R = 7, I = 6, O = 11, HEADS = 2 };
static float in[R * 3 * I], weight[I * O], bias[O], out[R * O], dout[R * O], panel[64 * MATMUL_COLUMNS];
static float din[R * 3 * I], dweight[I * O], dbias[O];

static double weighted(int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)out[i] * dout[i];
    return sum;
}

static void start_layer(void) {
    randomize(in, R * 3 * I, 1);
    randomize(weight, I * O, 1);
    randomize(bias, O, 1);
    randomize(dout, R * O, 1);
    memset(din, 0, sizeof din);
    memset(dweight, 0, sizeof dweight);
    memset(dbias, 0, sizeof dbias);
}

static double dense_value(void) {
    dense_forward(out, in, weight, bias, panel, R, I, O, false);
    return weighted(R * O);
}

static void test_dense(void) {
    start_layer();
    dense_backward_input(din, dout, weight, panel, R, I, O);
    dense_backward_weights(dweight, dbias, dout, in, panel, R, I, O);
    check_gradient("dense input", (function){in, R * I, dense_value}, din);
    check_gradient("dense weight", (function){weight, I * O, dense_value}, dweight);
    check_gradient("dense bias", (function){bias, O, dense_value}, dbias);
    float plain[R * O];
    dense_value();
    memcpy(plain, out, sizeof plain);
    memset(out, 0, sizeof out);
    dense_forward(out, in, weight, bias, panel, R, I, O, true);
    CHECK(memcmp(plain, out, sizeof plain) == 0, "added to zeros");
}

static double norm_value(void) {
    norm_forward(out, in, weight, bias, R, I);
    return weighted(R * I);
}

static void test_norm(void) {
    start_layer();
    norm_backward(din, dweight, dbias, dout, in, weight, R, I);
    check_gradient("norm input", (function){in, R * I, norm_value}, din);
    check_gradient("norm gain", (function){weight, I, norm_value}, dweight);
    check_gradient("norm bias", (function){bias, I, norm_value}, dbias);
    norm_value();
    for (int r = 0; r < R; r++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < I; i++) mean += in[r * I + i] / (double)I;
        for (int i = 0; i < I; i++) squares += pow(in[r * I + i] - mean, 2) / I;
        for (int i = 0; i < I; i++) {
            double expected = (in[r * I + i] - mean) / sqrt(squares + 1e-5) * weight[i] + bias[i];
            CHECK(fabs(out[r * I + i] - expected) < 2e-6, "%g, %g", out[r * I + i], expected);
        }
    }
}

static double gelu_value(void) {
    gelu_forward(out, in, R * I);
    return weighted(R * I);
}

static double relu_value(void) {
    relu_forward(out, in, R * I);
    return weighted(R * I);
}

static void test_activations(void) {
    float again[R * I], together[R * I];
    start_layer();
    for (int i = 0; i < R * I; i++) in[i] = in[i] * 3 + (in[i] < 0 ? -0.1f : 0.1f);  // no step across ReLU's corner
    gelu_backward(din, again, dout, in, R * I);
    check_gradient("GELU", (function){in, R * I, gelu_value}, din);
    gelu_value();
    CHECK(memcmp(again, out, sizeof again) == 0, "the output again");
    memcpy(together, dout, sizeof together);
    gelu_backward(together, again, together, in, R * I);
    CHECK(memcmp(together, din, sizeof together) == 0, "in place");
    for (int i = 0; i < R * I; i++) {
        double x = in[i], expected = 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
        CHECK(fabs(out[i] - expected) < 1e-6, "%g, %g", out[i], expected);
    }
    relu_value();
    relu_backward(din, dout, out, R * I);
    check_gradient("ReLU", (function){in, R * I, relu_value}, din);
}

static float scratch[2 * R * 8 + R * MATMUL_COLUMNS];

static double attention_value(void) {
    attention_forward(out, in, scratch, R, I, HEADS, 0, 1);
    return weighted(R * I);
}

// One output after the other, in double.
static double attention_element(int i, int column) {
    int width = I / HEADS, head = column / width;
    double sum = 0, total = 0;
    for (int j = 0; j <= i; j++) {
        double score = 0;
        for (int k = 0; k < width; k++)
            score += (double)in[i * 3 * I + head * width + k] * in[j * 3 * I + I + head * width + k];
        sum += exp(score / sqrt(width));
        total += exp(score / sqrt(width)) * in[j * 3 * I + 2 * I + column];
    }
    return total / sum;
}

static void test_attention(void) {
    CHECK(attention_scratch(R, I / HEADS) * sizeof(float) == sizeof scratch, "scratch");
    start_layer();
    for (int i = 0; i < R * 3 * I; i++) in[i] *= 2;
    memset(scratch, 0xff, sizeof scratch);  // NaN: nothing may be read before it is written
    attention_backward(din, dout, in, scratch, R, I, HEADS);
    check_gradient("attention", (function){in, R * 3 * I, attention_value}, din);
    attention_value();
    for (int i = 0; i < R * I; i++)
        CHECK(fabs(out[i] - attention_element(i / I, i % I)) < 1e-6, "%d: %g, %g", i, out[i],
              attention_element(i / I, i % I));
    float whole[R * I];
    memcpy(whole, out, sizeof whole);
    for (int n = 1; n <= R; n++) attention_forward(out, in, scratch, n, I, HEADS, n - 1, 1);
    CHECK(memcmp(whole, out, sizeof whole) == 0, "row by row");
}

enum { TOKENS = 5 };
static const uint16_t read_tokens[R] = {0, 4, 4, 1, 2, 4, 0};

static double embedding_value(void) {
    embedding_forward(out, read_tokens, in, weight, R, I, 2);
    return weighted(R * I);
}

static void test_embedding(void) {
    start_layer();
    float dposition[I * O] = {0};
    embedding_backward(din, dposition, dout, read_tokens, R, I);
    check_gradient("token", (function){in, TOKENS * I, embedding_value}, din);
    for (int i = 0; i < R * I; i++) CHECK(dposition[i] == dout[i], "position %d", i);
    embedding_value();
    CHECK(out[3 * I + 1] == in[1 * I + 1] + weight[(2 + 3) * I + 1], "%g", out[3 * I + 1]);
}

static const uint16_t targets[R] = {0, 1, O - 1, 3, 3, 7, 2};

static double loss_value(void) {
    bool hit[R];
    token_score score = {0};
    memcpy(out, in, sizeof out);
    softmax_loss(out, hit, targets, 1, R, O, &score);
    return score.loss;
}

static void test_loss(void) {
    bool hit[R];
    token_score score = {.loss = 1, .targets = 2, .correct = 3};
    start_layer();
    in[5 * O + 7] = 4;
    memcpy(din, in, sizeof in);
    softmax_loss(din, hit, targets, 1, R, O, &score);
    check_gradient("loss", (function){in, R * O, loss_value}, din);
    double expected = 0;
    int correct = 0;
    for (int r = 0; r < R; r++) {
        double sum = 0;
        int best = 0;
        for (int i = 0; i < O; i++) sum += exp(in[r * O + i]);
        for (int i = 1; i < O; i++) best = in[r * O + i] > in[r * O + best] ? i : best;
        expected += log(sum) - in[r * O + targets[r]];
        correct += best == targets[r];
        CHECK(hit[r] == (best == targets[r]), "hit %d", r);
    }
    CHECK(fabs(score.loss - 1 - expected) < 1e-6 && score.targets == 2 + R && score.correct == 3u + (uint32_t)correct,
          "%g, %g", score.loss, expected);
    CHECK(correct > 0 && correct < R, "the test is blind");

    // The first of equals is the arg max, and no logit is too large.
    float equal[3] = {1000, 1000, -1000};
    score = (token_score){0};
    softmax_loss(equal, hit, &targets[0], 1, 1, 3, &score);
    CHECK(hit[0] && fabs(score.loss - log(2)) < 1e-6, "%g", score.loss);
    float second[3] = {1000, 1000, -1000};
    softmax_loss(second, hit, &targets[1], 1, 1, 3, &score);
    CHECK(!hit[0], "the second of two equals");
    float broken[3] = {1, NAN, 2};
    softmax_loss(broken, hit, &targets[0], 1, 1, 3, &score);
    CHECK(!isfinite(score.loss), "a NaN must not get lost");
}

// Of a gradient of 2 and then -1, worked out by hand.
static void test_adamw_follows_its_formula(void) {
    for (int n = 1; n <= 5; n += 4) {  // one value alone, and four in a vector
        float w[5] = {1, 1, 1, 1, 1}, m[5] = {0}, v[5] = {0}, first[5], second[5];
        for (int i = 0; i < 5; i++) first[i] = 4, second[i] = -2;
        adamw state = adamw_start(0.9, 0.999, 1e-8);
        adamw_count_step(&state);
        adamw_step(&state, w, m, v, first, 0.5f, 0.1, 0.2, (size_t)n);
        CHECK(fabsf(w[n - 1] - (0.98f - 0.1f)) < 1e-6f, "%g", w[n - 1]);  // the rate, whatever the gradient
        adamw_count_step(&state);
        adamw_step(&state, w, m, v, second, 0.5f, 0.1, 0.2, (size_t)n);
        double mean = (0.9 * 0.2 - 0.1) / (1 - 0.81), size = sqrt((0.999 * 0.004 + 0.001) / (1 - 0.998001));
        CHECK(fabs(w[n - 1] - (0.88 * 0.98 - 0.1 * mean / size)) < 1e-6, "%g", w[n - 1]);
        CHECK(n == 5 || w[1] == 1, "beyond the end");
    }
}

static void test_sgd_and_clipping_follow_their_formulas(void) {
    float w[2] = {1, -1}, g[7] = {3, 4, 0, 12, 0, 0, 84};
    sgd_step(w, g, 0.5f, 0.25, 0.5, 2);
    CHECK(w[0] == 0.875f - 0.375f && w[1] == -0.875f - 0.5f, "%g %g", w[0], w[1]);
    CHECK(gradient_norm(g, 7) == 85 && gradient_norm(g, 2) == 5, "%g", gradient_norm(g, 7));
    CHECK(clip_factor(5, 1) == 0.2f && clip_factor(5, 5) == 1 && clip_factor(5, 0) == 1, "factors");
}

int main(void) {
    source = rng_start(1, 0);
    test_products_keep_the_order_of_the_plain_loop();
    test_exponential_is_as_exact_as_it_says();
    test_dense();
    test_norm();
    test_activations();
    test_attention();
    test_embedding();
    test_loss();
    test_adamw_follows_its_formula();
    test_sgd_and_clipping_follow_their_formulas();
    return 0;
}
