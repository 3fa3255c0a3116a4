#include "network.h"

#include "../lib/functions.h"
#include "../lib/matmul.h"
#include "../lib/rng.h"
#include "../lib/vector.h"

static void layer_counts(const sizes *s, size_t count[LAYER_TENSORS]) {
    size_t D = (size_t)s->width, H = (size_t)s->hidden;
    count[NORM1_GAIN] = count[NORM1_BIAS] = count[NORM2_GAIN] = count[NORM2_BIAS] = D;
    count[QKV_WEIGHT] = D * 3 * D;
    count[QKV_BIAS] = 3 * D;
    count[PROJECTION_WEIGHT] = D * D;
    count[PROJECTION_BIAS] = count[OUT_BIAS] = D;
    count[HIDDEN_WEIGHT] = count[OUT_WEIGHT] = D * H;
    count[HIDDEN_BIAS] = H;
}

static bool is_matrix(int tensor) {
    return tensor == QKV_WEIGHT || tensor == PROJECTION_WEIGHT || tensor == HIDDEN_WEIGHT || tensor == OUT_WEIGHT;
}

static uint64_t embedding_count(const sizes *s) { return (uint64_t)(s->vocabulary + s->context) * (uint64_t)s->width; }

static uint64_t layer_count(const sizes *s) {
    uint64_t D = (uint64_t)s->width, H = (uint64_t)s->hidden;
    return 4 * D * D + 2 * D * H + 9 * D + H;
}

uint64_t network_parameters(const sizes *s) {
    return embedding_count(s) + (uint64_t)s->layers * layer_count(s) + 2 * (uint64_t)s->width;
}

outer_parameters outer_of(const sizes *s, float *block) {
    size_t D = (size_t)s->width;
    float *position = block + (size_t)s->vocabulary * D;
    float *gain = block + (size_t)(embedding_count(s) + (uint64_t)s->layers * layer_count(s));
    return (outer_parameters){block, position, gain, gain + D};
}

layer_parameters layer_of(const sizes *s, float *block, int layer) {
    size_t count[LAYER_TENSORS];
    layer_parameters p;
    layer_counts(s, count);
    block += (size_t)(embedding_count(s) + (uint64_t)layer * layer_count(s));
    for (int i = 0; i < LAYER_TENSORS; block += count[i++]) p.tensor[i] = block;
    return p;
}

// Marsaglia's polar method: two numbers from a point in the unit circle.
typedef struct {
    rng source;
    double kept;
    bool has_kept;
} normal_source;

static double between_minus_one_and_one(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-52 - 1; }

static double next_normal(normal_source *n) {
    if (n->has_kept) {
        n->has_kept = false;
        return n->kept;
    }
    double x, y, square;
    do {
        x = between_minus_one_and_one(&n->source);
        y = between_minus_one_and_one(&n->source);
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double factor = __builtin_sqrt(-2 * weei_log(square) / square);
    n->kept = y * factor;
    n->has_kept = true;
    return x * factor;
}

static void fill(float *at, size_t count, float value) {
    for (size_t i = 0; i < count; i++) at[i] = value;
}

static void fill_normal(normal_source *n, float *at, size_t count, double deviation) {
    for (size_t i = 0; i < count; i++) at[i] = (float)(deviation * next_normal(n));
}

void network_initialize(const sizes *s, float *block, uint64_t seed) {
    const double deviation = 0.02, residual = deviation / __builtin_sqrt(2.0 * s->layers);
    normal_source source = {.source = rng_start(seed, 0)};
    size_t count[LAYER_TENSORS];
    layer_counts(s, count);
    fill_normal(&source, block, (size_t)embedding_count(s), deviation);
    for (int l = 0; l < s->layers; l++) {
        layer_parameters p = layer_of(s, block, l);
        for (int i = 0; i < LAYER_TENSORS; i++) {
            bool joins = i == PROJECTION_WEIGHT || i == OUT_WEIGHT;
            if (is_matrix(i)) fill_normal(&source, p.tensor[i], count[i], joins ? residual : deviation);
            else fill(p.tensor[i], count[i], i == NORM1_GAIN || i == NORM2_GAIN ? 1 : 0);
        }
    }
    outer_parameters outer = outer_of(s, block);
    fill(outer.gain, (size_t)s->width, 1);
    fill(outer.bias, (size_t)s->width, 0);
}

static int larger(int a, int b) { return a > b ? a : b; }

int tile_rows(const sizes *s) { return larger(s->context, TILE_ROWS); }

static int widest(const sizes *s) { return larger(s->hidden, 3 * s->width); }

// Gives out the memory behind `base`, or only counts it.
typedef struct {
    uint8_t *base;
    uint64_t used;
} arena;

static void *take(arena *a, uint64_t count, uint64_t size) {
    void *at = a->base == NULL ? NULL : a->base + a->used;
    a->used += (count * size + 15) / 16 * 16;
    return at;
}

static float *take_floats(arena *a, int rows, int columns) { return take(a, (uint64_t)rows * (uint64_t)columns, 4); }

uint64_t tile_place(tile *t, const sizes *s, uint8_t *base) {
    arena a = {base, 0};
    int R = tile_rows(s), D = s->width, wide = widest(s);
    int longest_sum = larger(larger(R, HEAD_ROWS), larger(wide, s->vocabulary));
    t->spans = take(&a, R, sizeof(span));
    t->tokens = take(&a, R, sizeof(uint16_t));
    t->target_row = take(&a, R, sizeof(uint32_t));
    t->target_span = take(&a, R, sizeof(uint32_t));
    t->target = take(&a, R, sizeof(uint16_t));
    t->hit = take(&a, HEAD_ROWS, sizeof(bool));
    t->layer = take(&a, s->layers, sizeof(layer_activations));
    for (int l = 0; l < s->layers; l++) {
        layer_activations own = {
            .in = take_floats(&a, R, D),
            .qkv = take_floats(&a, R, 3 * D),
            .attended = take_floats(&a, R, D),
            .middle = take_floats(&a, R, D),
            .inner = take_floats(&a, R, s->hidden),
        };
        if (base != NULL) t->layer[l] = own;
    }
    t->last = take_floats(&a, R, D);
    t->normal = take_floats(&a, R, D);
    t->dresidual = take_floats(&a, R, D);
    t->dnormal = take_floats(&a, R, D);
    t->wide = take_floats(&a, R, wide);
    t->dwide = take_floats(&a, R, wide);
    t->picked = take_floats(&a, HEAD_ROWS, D);
    t->dpicked = take_floats(&a, HEAD_ROWS, D);
    t->logits = take_floats(&a, HEAD_ROWS, s->vocabulary);
    t->scratch = take(&a, attention_scratch(s->context, D / s->heads), sizeof(float));
    t->panel = take_floats(&a, longest_sum, MATMUL_COLUMNS);
    return a.used;
}

static void copy(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = from[i];
}

// The input of the layer behind this one is its output.
static float *output_of(const sizes *s, tile *t, int layer) {
    return layer + 1 < s->layers ? t->layer[layer + 1].in : t->last;
}

// Rows from one position of a record to the next.
static int rows_apart(const tile *t) { return t->side_by_side ? t->span_count : 1; }

static void layer_forward(const sizes *s, float *block, tile *t, int layer, int first) {
    layer_activations *a = &t->layer[layer];
    layer_parameters parameters = layer_of(s, block, layer);
    float **p = parameters.tensor;
    int D = s->width, H = s->hidden, apart = rows_apart(t), skipped = first * apart, R = t->rows - skipped;
    size_t at = (size_t)skipped * D, count = (size_t)R * D;
    float *normal = t->normal + at, *middle = a->middle + at, *inner = a->inner + (size_t)skipped * H;
    float *out = output_of(s, t, layer) + at;

    norm_forward(normal, a->in + at, p[NORM1_GAIN], p[NORM1_BIAS], R, D);
    dense_forward(a->qkv + 3 * at, normal, p[QKV_WEIGHT], p[QKV_BIAS], t->panel, R, D, 3 * D, false);
    for (int i = 0; i < t->span_count; i++) {
        size_t row = t->spans[i].row;
        attention_forward(a->attended + row * D, a->qkv + row * 3 * D, t->scratch, (int)t->spans[i].rows, D, s->heads,
                          first, apart);
    }
    copy(middle, a->in + at, count);
    dense_forward(middle, a->attended + at, p[PROJECTION_WEIGHT], p[PROJECTION_BIAS], t->panel, R, D, D, true);

    norm_forward(normal, middle, p[NORM2_GAIN], p[NORM2_BIAS], R, D);
    dense_forward(inner, normal, p[HIDDEN_WEIGHT], p[HIDDEN_BIAS], t->panel, R, D, H, false);
    gelu_forward(t->wide, inner, R * H);
    copy(out, middle, count);
    dense_forward(out, t->wide, p[OUT_WEIGHT], p[OUT_BIAS], t->panel, R, H, D, true);
}

// Positions of one record from `first` on.
static void embed(const sizes *s, float *block, tile *t, const span *record, int first) {
    outer_parameters outer = outer_of(s, block);
    int apart = rows_apart(t), end = (int)record->rows, together = apart == 1 ? end - first : 1;
    for (int p = first; p < end; p += together) {
        size_t row = record->row + (size_t)p * apart;
        embedding_forward(t->layer[0].in + row * s->width, t->tokens + row, outer.token, outer.position, together,
                          s->width, p);
    }
}

void network_forward(const sizes *s, float *block, tile *t, int first) {
    outer_parameters outer = outer_of(s, block);
    int D = s->width, skipped = first * rows_apart(t);
    for (int i = 0; i < t->span_count; i++) embed(s, block, t, &t->spans[i], first);
    for (int l = 0; l < s->layers; l++) layer_forward(s, block, t, l, first);
    size_t at = (size_t)skipped * D;
    norm_forward(t->normal + at, t->last + at, outer.gain, outer.bias, t->rows - skipped, D);
}

void network_logits(const sizes *s, float *block, tile *t, int row, int count) {
    int D = s->width;
    matmul(t->logits, s->vocabulary, rows_of(t->normal + (size_t)row * D, D), transposed(block, D), NULL, t->panel,
           count, s->vocabulary, D, FROM_ZERO, WHOLE);
}

static void copy_scaled(float *to, const float *from, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) to[i] = factor * from[i];
}

// Losses of targets [from, from + count), and the gradients of their logits in place of these.
static void targets_learn(tile *t, int from, int count, int V, float scale, const target_options *options,
                          token_score *score) {
    for (int i = 0; i < count; i++) {
        token_score own = {0};
        float factor = options->weight == NULL ? scale : scale * options->weight[from + i];
        softmax_loss(t->logits + (size_t)i * V, t->hit + i, t->target + from + i, factor, 1, V, &own);
        if (options->loss != NULL) options->loss[from + i] = own.loss;
        if (!t->hit[i]) t->spans[t->target_span[from + i]].missed = true;
        score->loss += own.loss;
        score->targets += own.targets;
        score->correct += own.correct;
    }
}

// Loss of targets [from, from + count), and their part of the gradient in t->dnormal.
// The sharpness is a factor of the rows that meet the embedding, and so of every logit.
static void head_learn(const sizes *s, float *token, float *dtoken, tile *t, int from, int count, float scale,
                       const target_options *options, token_score *score) {
    int D = s->width, V = s->vocabulary;
    const uint32_t *row = t->target_row + from;
    float sharpness = options->sharpness;
    for (int i = 0; i < count; i++)
        copy_scaled(t->picked + (size_t)i * D, t->normal + (size_t)row[i] * D, D, sharpness);
    matmul(t->logits, V, rows_of(t->picked, D), transposed(token, D), NULL, t->panel, count, V, D, FROM_ZERO, WHOLE);
    targets_learn(t, from, count, V, scale, options, score);
    if (dtoken == NULL) return;
    matmul(t->dpicked, D, rows_of(t->logits, V), rows_of(token, D), NULL, t->panel, count, D, V, FROM_ZERO, WHOLE);
    matmul(dtoken, D, transposed(t->logits, V), rows_of(t->picked, D), NULL, t->panel, V, D, count, FROM_OUTPUT, WHOLE);
    for (int i = 0; i < count; i++)
        copy_scaled(t->dnormal + (size_t)row[i] * D, t->dpicked + (size_t)i * D, D, sharpness);
}

// From the gradient of the layer's output to that of its input, both in t->dresidual.
static void layer_backward(const sizes *s, float *block, float *gradient, tile *t, int layer) {
    const layer_activations *a = &t->layer[layer];
    layer_parameters parameters = layer_of(s, block, layer), gradients = layer_of(s, gradient, layer);
    float **p = parameters.tensor, **g = gradients.tensor;
    int D = s->width, H = s->hidden, R = t->rows;

    dense_backward_input(t->dwide, t->dresidual, p[OUT_WEIGHT], t->panel, R, H, D);
    gelu_backward(t->dwide, t->wide, t->dwide, a->inner, R * H);
    dense_backward_weights(g[OUT_WEIGHT], g[OUT_BIAS], t->dresidual, t->wide, t->panel, R, H, D);
    norm_forward(t->normal, a->middle, p[NORM2_GAIN], p[NORM2_BIAS], R, D);
    dense_backward_weights(g[HIDDEN_WEIGHT], g[HIDDEN_BIAS], t->dwide, t->normal, t->panel, R, D, H);
    dense_backward_input(t->dnormal, t->dwide, p[HIDDEN_WEIGHT], t->panel, R, D, H);
    norm_backward(t->dresidual, g[NORM2_GAIN], g[NORM2_BIAS], t->dnormal, a->middle, p[NORM2_GAIN], R, D);

    dense_backward_weights(g[PROJECTION_WEIGHT], g[PROJECTION_BIAS], t->dresidual, a->attended, t->panel, R, D, D);
    dense_backward_input(t->dnormal, t->dresidual, p[PROJECTION_WEIGHT], t->panel, R, D, D);
    for (int i = 0; i < t->span_count; i++) {
        size_t row = t->spans[i].row;
        attention_backward(t->dwide + row * 3 * D, t->dnormal + row * D, a->qkv + row * 3 * D, t->scratch,
                           (int)t->spans[i].rows, D, s->heads);
    }
    norm_forward(t->normal, a->in, p[NORM1_GAIN], p[NORM1_BIAS], R, D);
    dense_backward_weights(g[QKV_WEIGHT], g[QKV_BIAS], t->dwide, t->normal, t->panel, R, D, 3 * D);
    dense_backward_input(t->dnormal, t->dwide, p[QKV_WEIGHT], t->panel, R, D, 3 * D);
    norm_backward(t->dresidual, g[NORM1_GAIN], g[NORM1_BIAS], t->dnormal, a->in, p[NORM1_GAIN], R, D);
}

void network_learn(const sizes *s, float *block, float *gradient, tile *t, float scale, token_score *score) {
    network_learn_targets(s, block, gradient, t, scale, &(target_options){.sharpness = 1}, score);
}

void network_learn_targets(const sizes *s, float *block, float *gradient, tile *t, float scale,
                           const target_options *options, token_score *score) {
    outer_parameters outer = outer_of(s, block), g = {0};
    int D = s->width;
    size_t count = (size_t)t->rows * D;
    if (gradient != NULL) {
        g = outer_of(s, gradient);
        fill(t->dnormal, count, 0);
        fill(t->dresidual, count, 0);
    }
    for (int at = 0; at < t->target_count; at += HEAD_ROWS) {
        int left = t->target_count - at;
        head_learn(s, outer.token, g.token, t, at, left < HEAD_ROWS ? left : HEAD_ROWS, scale, options, score);
    }
    if (gradient == NULL) return;
    norm_backward(t->dresidual, g.gain, g.bias, t->dnormal, t->last, outer.gain, t->rows, D);
    for (int l = s->layers - 1; l >= 0; l--) layer_backward(s, block, gradient, t, l);
    for (int i = 0; i < t->span_count; i++) {
        size_t row = t->spans[i].row;
        embedding_backward(g.token, g.position, t->dresidual + row * D, t->tokens + row, (int)t->spans[i].rows, D);
    }
}

// One range of the block, with or without weight decay.
typedef struct {
    float *block, *mean, *square;
    const float *gradient;
    const step_settings *settings;
    float factor;
} step_state;

static void step_range(step_state *s, size_t count, bool decays) {
    const step_settings *c = s->settings;
    double decay = decays ? c->decay : 0;
    if (s->mean == NULL) {
        sgd_step(s->block, s->gradient, s->factor, c->rate, decay, count);
    } else {
        adamw_step(&c->state, s->block, s->mean, s->square, s->gradient, s->factor, c->rate, decay, count);
        s->mean += count;
        s->square += count;
    }
    s->block += count;
    s->gradient += count;
}

void network_step(const sizes *s, float *block, float *means, const float *gradient, step_settings *settings) {
    size_t parameters = (size_t)network_parameters(s), count[LAYER_TENSORS];
    adamw_count_step(&settings->state);
    double norm = settings->clip > 0 ? gradient_norm(gradient, parameters) : 0;
    step_state state = {block, means, means == NULL ? NULL : means + parameters, gradient, settings,
                        clip_factor(norm, settings->clip)};
    layer_counts(s, count);
    step_range(&state, (size_t)embedding_count(s), true);
    for (int l = 0; l < s->layers; l++)
        for (int i = 0; i < LAYER_TENSORS; i++) step_range(&state, count[i], is_matrix(i));
    step_range(&state, 2 * (size_t)s->width, false);
}
