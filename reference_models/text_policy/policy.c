#include "policy.h"

#include <stdbool.h>

#include "../lib/functions.h"

void policy_advantages(double *advantage, const double *reward, uint32_t count) {
    double mean = 0, square = 0;
    for (uint32_t i = 0; i < count; i++) mean += reward[i];
    mean /= count;
    for (uint32_t i = 0; i < count; i++) square += (reward[i] - mean) * (reward[i] - mean);
    double deviation = __builtin_sqrt(square / count);
    for (uint32_t i = 0; i < count; i++) advantage[i] = deviation > 0 ? (reward[i] - mean) / deviation : 0;
}

// The smaller of both products is the clipped one where the ratio has already moved the way the advantage wants.
policy_token policy_of_token(const policy_terms *terms, double advantage, double now, double before, double reference) {
    double ratio = weei_exp(now - before), limit = advantage > 0 ? 1 + terms->clip : 1 - terms->clip;
    bool clipped = terms->clip > 0 && (advantage > 0 ? ratio > limit : ratio < limit);
    double difference = reference - now, quotient = weei_exp(difference), kl = quotient - difference - 1;
    return (policy_token){
        .gain = (clipped ? limit : ratio) * advantage - terms->beta * kl,
        .slope = (clipped ? 0 : ratio * advantage) - terms->beta * (1 - quotient),
        .kl = kl,
    };
}
