// Group relative policy optimization (Shao et al. 2024, "DeepSeekMath", equations 3 and 4, with outcome rewards): what
// is maximised for one problem with G answers o_i is
//
//   1/G sum_i 1/|o_i| sum_t  min(r A_i, clip(r, 1 - epsilon, 1 + epsilon) A_i) - beta KL
//
// r is a token's probability now by that when it was sampled, and KL = q - log q - 1 with q its probability under the
// reference by that now (Schulman 2020, "Approximating KL divergence", k3: without bias, never negative).
#ifndef TEXT_POLICY_POLICY_H
#define TEXT_POLICY_POLICY_H

#include <stdint.h>

// (reward - mean) / standard deviation of the group; 0 for each where all rewards are the same.
void policy_advantages(double *advantage,      // (count), may be `reward`
                       const double *reward,   // (count)
                       uint32_t count);

typedef struct {
    double clip;  // epsilon; 0 = the ratio is not clipped
    double beta;
} policy_terms;

typedef struct {
    double gain;   // the token's part of what is maximised
    double slope;  // its derivative by the token's log-probability now
    double kl;
} policy_token;

// All three are log-probabilities.
policy_token policy_of_token(const policy_terms *terms, double advantage, double now, double before, double reference);

#endif
