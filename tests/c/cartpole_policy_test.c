// CartPole's policy and its gradient against the plainest formulas.
#include <math.h>
#include <string.h>

#include "../../reference_models/cartpole/reinforce.h"
#include "../../reference_models/lib/functions.h"
#include "check.h"

enum { EPISODES = 6, SEED = 4 };

static parameters weights;
static episode batch[EPISODES];

static void play_batch(void) {
    policy p = policy_of(&weights);
    for (int i = 0; i < EPISODES; i++) episode_play(&batch[i], &p, SEED, (uint64_t)i);
    batch[1].fell = false;  // as if the limit had cut it: its returns count on
}

// The logits as two sums and the softmax as it is written, in double.
static double probability_of(const float *observation, int action) {
    double logits[ACTIONS];
    for (int a = 0; a < ACTIONS; a++) {
        logits[a] = weights.b2[a];
        for (int h = 0; h < HIDDEN; h++) {
            double sum = weights.b1[h];
            for (int i = 0; i < INPUTS; i++) sum += (double)observation[i] * weights.w1[i][h];
            logits[a] += tanh(sum) * weights.w2[h][a];
        }
    }
    return exp(logits[action]) / (exp(logits[0]) + exp(logits[1]));
}

static double discounted_return(const episode *e, uint32_t step) {
    double sum = 0, factor = 1;
    if (!e->fell) return 100;  // 1 + 0.99 + 0.99^2 + ...
    for (uint32_t t = step; t < e->steps; t++, factor *= 0.99) sum += factor;
    return sum;
}

static double loss(void) {
    static double returns[EPISODES * MOST_STEPS];
    double sum = 0, squares = 0, total = 0;
    int n = 0;
    for (int i = 0; i < EPISODES; i++)
        for (uint32_t t = 0; t < batch[i].steps; t++) returns[n++] = discounted_return(&batch[i], t);
    for (int k = 0; k < n; k++) sum += returns[k];
    for (int k = 0; k < n; k++) squares += pow(returns[k] - sum / n, 2);
    double mean = sum / n, deviation = sqrt(squares / n);
    for (int i = 0, k = 0; i < EPISODES; i++)
        for (uint32_t t = 0; t < batch[i].steps; t++, k++)
            total -= (returns[k] - mean) / (deviation + 1e-3) *
                     log(probability_of(batch[i].observations[t], batch[i].actions[t]));
    return total / n;
}

// Central differences with a step of 2^-7: their own error is about step^2 times the third derivative (1e-5);
// gradients here are up to 2e-2, and a wrong term is off by as much.
static void test_gradient_matches_finite_differences(void) {
    const float step = 0x1p-7f;
    const double tolerance = 3e-5;
    policy_initialize(&weights, 1);
    play_batch();
    parameters gradient = policy_gradient(&weights, batch, EPISODES);
    float *w = (float *)&weights, *g = (float *)&gradient;
    double largest_gradient = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        float kept = w[i];
        w[i] = kept + step;
        double above = loss();
        w[i] = kept - step;
        double below = loss();
        w[i] = kept;
        double numeric = (above - below) / (2 * step);
        CHECK(fabs(numeric - g[i]) < tolerance, "weight %d: %g, differences say %g", i, g[i], numeric);
        largest_gradient = fmax(largest_gradient, fabs(numeric));
    }
    CHECK(largest_gradient > 300 * tolerance, "the test is blind: no gradient above %g", largest_gradient);
}

static void test_a_batch_without_a_fall_changes_nothing_that_matters(void) {
    static learner l;
    parameters before = weights;
    for (int i = 0; i < EPISODES; i++) batch[i].fell = false;
    learner_start(&l);
    learner_update(&l, &weights, batch, EPISODES, 1);
    for (int i = 0; i < WEIGHTS; i++) {
        double change = fabs(((float *)&weights)[i] - ((float *)&before)[i]);
        CHECK(change < 1e-3, "weight %d changed by %g at a rate of 1", i, change);
    }
}

static void test_an_episode_does_not_depend_on_others(void) {
    static episode alone;
    policy p = policy_of(&weights);
    play_batch();
    episode_play(&alone, &p, SEED, EPISODES - 1);
    const episode *last = &batch[EPISODES - 1];
    CHECK(alone.steps == last->steps && memcmp(alone.actions, last->actions, alone.steps) == 0, "%u steps, %u steps",
          alone.steps, last->steps);
}

static void test_probability_never_reaches_zero_or_one(void) {
    const float extremes[] = {-INFINITY, -1e30f, -100, 100, 1e30f, INFINITY};
    for (int i = 0; i < 6; i++) {
        float probability = policy_probability(extremes[i]);
        CHECK(probability > 0 && probability < 1, "%g at %g", probability, extremes[i]);
    }
}

static void test_tanh_is_as_exact_as_it_says(void) {
    double worst = 0;
    for (int i = -2000000; i <= 2000000; i++) {
        float x = (float)i * 5e-6f;
        if (x != 0) worst = fmax(worst, fabs(tanh_float(x) / tanh(x) - 1));
        CHECK(fabsf(tanh_float(x)) < 1, "%g", x);
    }
    CHECK(worst < 3.6e-7, "off by %g", worst);
    CHECK(tanh_float(0) == 0 && isnan(tanh_float(NAN)), "%g %g", tanh_float(0), tanh_float(NAN));
}

// Of a gradient of 2 and then -1, worked out by hand.
static void test_adam_follows_its_formula(void) {
    float weight = 1, mean, square;
    adam state = {.mean = &mean, .square = &square};
    adam_start(&state, 1);
    adam_step(&weight, &state, &(float){2}, 0.5f, 1);
    CHECK(fabsf(weight - 0.5f) < 1e-6f, "%g", weight);  // the first step is the rate, whatever the gradient
    adam_step(&weight, &state, &(float){-1}, 0.5f, 1);
    double corrected = (0.9 * 0.2 - 0.1) / (1 - 0.81), size = sqrt((0.999 * 0.004 + 0.001) / (1 - 0.998001));
    CHECK(fabs(weight - (0.5 - 0.5 * corrected / size)) < 1e-6, "%g", weight);
}

int main(void) {
    test_gradient_matches_finite_differences();
    test_a_batch_without_a_fall_changes_nothing_that_matters();
    test_an_episode_does_not_depend_on_others();
    test_probability_never_reaches_zero_or_one();
    test_tanh_is_as_exact_as_it_says();
    test_adam_follows_its_formula();
    return 0;
}
