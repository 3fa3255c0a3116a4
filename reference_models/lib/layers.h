// Layers of a transformer as forward/backward pairs. Shapes stand beside each pointer, all row by row: R rows
// (positions of any number of records, one record behind the other), D, I, O widths, V tokens, T positions. Sums have
// one order in every build (matmul.h, vector.h). Backward functions add to the gradients of parameters and overwrite
// all others.
#ifndef WEEI_LAYERS_H
#define WEEI_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

// out = in weight + bias, or out += that if `add`.
void dense_forward(float *out,           // (R, O)
                   const float *in,      // (R, I)
                   const float *weight,  // (I, O)
                   const float *bias,    // (O)
                   float *panel,         // (I, MATMUL_COLUMNS) scratch
                   int R, int I, int O, bool add);

// The backward pass in two halves, since what lies between layers is often computed again in between.
void dense_backward_input(float *din,           // (R, I)
                          const float *dout,    // (R, O)
                          const float *weight,  // (I, O)
                          float *panel,         // (O, MATMUL_COLUMNS) scratch
                          int R, int I, int O);
void dense_backward_weights(float *dweight,     // (I, O), added to
                            float *dbias,       // (O), added to
                            const float *dout,  // (R, O)
                            const float *in,    // (R, I)
                            float *panel,       // (R, MATMUL_COLUMNS) scratch
                            int R, int I, int O);

// Token and position together: the first row of a record has position `first`, the next ones count on.
void embedding_forward(float *out,              // (R, D)
                       const uint16_t *tokens,  // (R), each below V
                       const float *token,      // (V, D)
                       const float *position,   // (T, D)
                       int R, int D, int first);
void embedding_backward(float *dtoken,           // (V, D), added to
                        float *dposition,        // (T, D), added to
                        const float *dout,       // (R, D)
                        const uint16_t *tokens,  // (R)
                        int R, int D);

// Each row less its mean, divided by its standard deviation, times gain, plus bias.
void norm_forward(float *out,         // (R, D)
                  const float *in,    // (R, D)
                  const float *gain,  // (D)
                  const float *bias,  // (D)
                  int R, int D);

// Computes the row's statistics again. Adds to `din`, where the residual path has left its part.
void norm_backward(float *din,         // (R, D), added to
                   float *dgain,       // (D), added to
                   float *dbias,       // (D), added to
                   const float *dout,  // (R, D)
                   const float *in,    // (R, D)
                   const float *gain,  // (D)
                   int R, int D);

// The tanh form of GELU, and ReLU. `out` may be `in`.
void gelu_forward(float *out, const float *in, int n);  // both (n)
void relu_forward(float *out, const float *in, int n);  // both (n)

// Also gives the layer's output again, so that only its input must be kept. `din` may be `dout`.
void gelu_backward(float *din, float *out, const float *dout, const float *in, int n);  // all (n)
void relu_backward(float *din, const float *dout, const float *out, int n);             // all (n)

// Floats of scratch that attention over n positions needs.
uint64_t attention_scratch(int n, int head_width);

// Causal attention of one record: position i looks at positions 0 to i. A row of qkv holds the queries of all heads,
// then their keys, then their values; head h has columns [h D / heads, (h + 1) D / heads) of each. Only rows from
// `first` on are computed. Records of one length may lie side by side: a record's rows are `apart` rows from each other.
void attention_forward(float *out,        // (n, D)
                       const float *qkv,  // (n, 3 D)
                       float *scratch,    // (attention_scratch)
                       int n, int D, int heads, int first, int apart);
void attention_backward(float *dqkv,       // (n, 3 D)
                        const float *dout,  // (n, D)
                        const float *qkv,   // (n, 3 D)
                        float *scratch,     // (attention_scratch)
                        int n, int D, int heads);

typedef struct {
    double loss;  // sum over targets, nats
    uint64_t targets, correct;
} token_score;

// Cross-entropy of each row's softmax against its target; adds to `score`, says in `hit` whether the target was the arg
// max, and replaces the logits by scale (softmax - target), their gradient.
void softmax_loss(float *logits,            // (R, V), becomes the gradient
                  bool *hit,                // (R)
                  const uint16_t *targets,  // (R), each below V
                  float scale, int R, int V, token_score *score);

#endif
