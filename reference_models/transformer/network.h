// A decoder: embeddings of tokens and positions, layers of causal attention and a GELU network, each behind a norm and
// beside a residual path, and logits by the transposed token embedding. Letters: V tokens, T positions (the context), D
// width, H hidden width, R rows (positions of the records of one tile, one record behind the other).
#ifndef TRANSFORMER_NETWORK_H
#define TRANSFORMER_NETWORK_H

#include "../lib/config.h"
#include "../lib/layers.h"
#include "../lib/optimizer.h"

typedef struct {
    int vocabulary, context, layers, heads, width, hidden;
} sizes;

// One flat block of float32, in this order: the first two tensors, then LAYER_TENSORS for each layer, then the last
// norm's two.
enum {
    NORM1_GAIN, NORM1_BIAS,        // (D) each
    QKV_WEIGHT, QKV_BIAS,          // (D, 3 D), (3 D)
    PROJECTION_WEIGHT, PROJECTION_BIAS,  // (D, D), (D)
    NORM2_GAIN, NORM2_BIAS,        // (D) each
    HIDDEN_WEIGHT, HIDDEN_BIAS,    // (D, H), (H)
    OUT_WEIGHT, OUT_BIAS,          // (H, D), (D)
    LAYER_TENSORS,
};

typedef struct {
    float *token;     // (V, D)
    float *position;  // (T, D)
    float *gain, *bias;  // (D) each, of the last norm
} outer_parameters;

typedef struct {
    float *tensor[LAYER_TENSORS];
} layer_parameters;

uint64_t network_parameters(const sizes *s);  // how many floats the block has
outer_parameters outer_of(const sizes *s, float *block);
layer_parameters layer_of(const sizes *s, float *block, int layer);

// Normal with deviation 0.02, weights of what joins the residual path 0.02 / sqrt(2 layers); biases 0, gains 1.
void network_initialize(const sizes *s, float *block, uint64_t seed);

enum {
    TILE_ROWS = 256,  // at least; a tile holds as many whole records as fit
    HEAD_ROWS = 128,  // rows whose logits are computed at a time
};

int tile_rows(const sizes *s);  // the most rows of a tile: max(context, TILE_ROWS)

// What the backward pass needs of one layer.
typedef struct {
    float *in;        // (R, D)
    float *qkv;       // (R, 3 D)
    float *attended;  // (R, D)
    float *middle;    // (R, D), behind the first residual sum
    float *inner;     // (R, H), what GELU reads
} layer_activations;

typedef struct {
    uint32_t row, rows;  // of one record within the tile
    bool missed;         // a trained target was not the arg max
} span;

// A tile of records and everything computed from it. Filled by the caller: spans, tokens, and for training the rows
// that have a target.
typedef struct {
    span *spans;  // (span_count)
    int span_count, rows, target_count;
    bool side_by_side;  // records of one length: position p of record i is row p span_count + i. For growing alone
    uint16_t *tokens;   // (R)
    uint32_t *target_row, *target_span;  // (target_count) each, ascending
    uint16_t *target;   // (target_count)

    layer_activations *layer;  // (layers)
    float *last;    // (R, D), behind the last layer
    float *normal;  // (R, D), a norm's output
    float *wide;    // (R, max(H, 3 D))
    float *dresidual, *dnormal;  // (R, D) each
    float *dwide;   // (R, max(H, 3 D))
    float *picked, *dpicked;  // (HEAD_ROWS, D) each
    float *logits;  // (HEAD_ROWS, V)
    bool *hit;      // (HEAD_ROWS)
    float *scratch;  // (attention_scratch)
    float *panel;    // (the longest sum, MATMUL_COLUMNS)
} tile;

// Places all of the tile's arrays from `base` on, 16-byte aligned, and returns their bytes; NULL only measures.
uint64_t tile_place(tile *t, const sizes *s, uint8_t *base);

// Positions from `first` on; what lies before them is as an earlier call computed it. For records that grow token by
// token: a single one, or several side by side.
void network_forward(const sizes *s, float *block, tile *t, int first);

// Logits of `count` rows, HEAD_ROWS at most, into t->logits.
void network_logits(const sizes *s, float *block, tile *t, int row, int count);

// Behind network_forward(…, 0): adds the targets' losses to `score`, and the gradient of `scale` times their sum to
// `gradient` unless that is NULL.
void network_learn(const sizes *s, float *block, float *gradient, tile *t, float scale, token_score *score);

// The same with what a policy wants of each target.
typedef struct {
    float sharpness;      // the logits are multiplied by it: 1 / temperature
    const float *weight;  // (target_count) further factors of their gradients; NULL = 1 each
    double *loss;         // (target_count) receives their losses; NULL = nothing
} target_options;
void network_learn_targets(const sizes *s, float *block, float *gradient, tile *t, float scale,
                           const target_options *options, token_score *score);

// One step of the optimizer on the whole block; `means` is NULL for SGD, else (2 * parameters): both of AdamW's.
typedef struct {
    double rate, decay, clip;
    adamw state;
} step_settings;
void network_step(const sizes *s, float *block, float *means, const float *gradient, step_settings *settings);

#endif
