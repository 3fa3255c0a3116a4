// Learning from answers: the gradient against finite differences, what sampling computes against the whole, and the
// numbers of the method on cases made by hand.
#include <math.h>
#include <string.h>

#include "../../reference_models/text_policy/learner.h"
#include "../../reference_models/text_policy/problem.h"
#include "check.h"
#include "native.h"

static const sizes SMALL = {.vocabulary = 7, .context = 9, .layers = 2, .heads = 2, .width = 6, .hidden = 9};
enum { MOST_WEIGHTS = 2000, ANSWERS = 70, QUESTION = 4, LONGEST = 5, END = 6, TEMPERATURE = 2 };
static float weights[MOST_WEIGHTS], frozen[MOST_WEIGHTS], gradient[MOST_WEIGHTS];
static _Alignas(16) uint8_t memory[1 << 20], candidates[1024];
static uint16_t tokens[ANSWERS][QUESTION + LONGEST];
static double before[ANSWERS][LONGEST], reference[ANSWERS][LONGEST], loss[256];
static float weight[256];
static answer answers[ANSWERS];
static tile t;

static const learner LEARNER = {.s = &SMALL,
                                .t = &t,
                                .terms = {.clip = 0.2, .beta = 0.3},
                                .sharpness = 1.0f / TEMPERATURE,
                                .weight = weight,
                                .loss = loss};
static const sampler SAMPLER = {.s = &SMALL,
                                .block = weights,
                                .t = &t,
                                .candidates = candidates,
                                .temperature = TEMPERATURE,
                                .end_token = END,
                                .longest = LONGEST};

static void fill(float *block, uint64_t seed, float limit) {
    rng r = rng_start(seed, 0);
    for (uint32_t i = 0; i < network_parameters(&SMALL); i++) block[i] = rng_uniform(&r, limit);
}

static void start(void) {
    CHECK(network_parameters(&SMALL) < MOST_WEIGHTS, "%g weights", (double)network_parameters(&SMALL));
    CHECK(tile_place(&t, &SMALL, NULL) <= sizeof memory, "%g bytes", (double)tile_place(&t, &SMALL, NULL));
    CHECK(generate_scratch(&SMALL) <= sizeof candidates, "scratch");
    memset(memory, 0xff, sizeof memory);  // NaN: nothing may be read before it is written
    tile_place(&t, &SMALL, memory);
    fill(weights, 5, 0.7f);
    fill(frozen, 6, 0.7f);
    for (int i = 0; i < ANSWERS; i++)
        answers[i] = (answer){.tokens = tokens[i], .before = before[i], .reference = reference[i]};
}

static void sample(const sampler *how, uint64_t seed) {
    static const uint16_t question[QUESTION] = {3, 1, 4, 1};
    memcpy(tokens[0], question, sizeof question);
    answers[0].question = QUESTION;
    CHECK(answers_sample(how, seed, answers, ANSWERS), "sampling");
}

// 70 answers of 8 rows are more than a tile holds. What grew side by side is what each alone is.
static void test_answers_are_what_each_alone_would_be(void) {
    sampler greedy = SAMPLER;
    int ended = 0, lengths[LONGEST + 1] = {0};
    sample(&SAMPLER, 8);
    for (int i = 0; i < ANSWERS; i++) {
        answer *a = &answers[i];
        CHECK(a->length >= 1 && a->length <= LONGEST, "%u tokens", a->length);
        CHECK(a->ended == (a->tokens[QUESTION + a->length - 1] == END), "the end of answer %d", i);
        CHECK(a->ended || a->length == LONGEST, "answer %d stops early", i);
        ended += a->ended;
        lengths[a->length]++;
    }
    CHECK(ended > 10 && ended < ANSWERS - 5 && lengths[1] > 0 && lengths[3] > 0, "%d ended", ended);

    greedy.temperature = 0;
    sample(&greedy, 9);
    CHECK(memcmp(tokens[0], tokens[ANSWERS - 1], sizeof tokens[0]) == 0, "the likeliest tokens are one answer");
    t.span_count = 1;
    for (uint32_t i = 0; i < answers[0].length; i++) {
        t.rows = QUESTION + (int)i;
        memcpy(t.tokens, tokens[0], sizeof(uint16_t) * (size_t)t.rows);
        t.spans[0] = (span){.row = 0, .rows = (uint32_t)t.rows};
        network_forward(&SMALL, weights, &t, 0);
        network_logits(&SMALL, weights, &t, t.rows - 1, 1);
        uint16_t chosen = tokens[0][QUESTION + i];
        for (int token = 0; token < SMALL.vocabulary; token++)
            CHECK(t.logits[token] <= t.logits[chosen], "token %u is not the likeliest", i);
    }
}

// Shares of the first token among many answers are the softmax of the logits by the temperature.
static void test_tokens_are_drawn_by_their_chances(void) {
    enum { RUNS = 60 };
    int count[7] = {0};
    for (int run = 0; run < RUNS; run++) {
        sample(&SAMPLER, 100 + (uint64_t)run);
        for (int i = 0; i < ANSWERS; i++) count[tokens[i][QUESTION]]++;
    }
    double sum = 0, chance[7];
    t.span_count = 1;
    t.rows = QUESTION;
    memcpy(t.tokens, tokens[0], sizeof(uint16_t) * QUESTION);
    t.spans[0] = (span){.row = 0, .rows = QUESTION};
    network_forward(&SMALL, weights, &t, 0);
    network_logits(&SMALL, weights, &t, QUESTION - 1, 1);
    for (int token = 0; token < 7; token++) sum += chance[token] = exp(t.logits[token] / TEMPERATURE);
    for (int token = 0; token < 7; token++) {
        double found = count[token] / (double)(RUNS * ANSWERS);
        CHECK(fabs(found - chance[token] / sum) < 0.025, "token %d: %g of %g", token, found, chance[token] / sum);
    }
}

static double gain(bool first) {
    learned total = {0};
    learner_pass(&LEARNER, weights, NULL, 1.0 / ANSWERS, answers, ANSWERS, first, &total);
    return total.gain / ANSWERS;
}

static void prepare(void) {
    sample(&SAMPLER, 8);
    for (int i = 0; i < ANSWERS; i++) answers[i].advantage = i % 5 - 2;
    learner_refer(&LEARNER, frozen, answers, ANSWERS);
}

// With ratios of 1 at first, and then away from where the answers were sampled, where some are clipped.
static void compare_with_differences(bool first) {
    const float step = 0x1p-8f;
    double largest = 0;
    learned total = {0};
    memset(gradient, 0, sizeof gradient);
    learner_pass(&LEARNER, weights, gradient, 1.0 / ANSWERS, answers, ANSWERS, first, &total);
    for (uint32_t i = 0; i < network_parameters(&SMALL); i++) {
        float kept = weights[i];
        weights[i] = kept + step;
        double above = gain(false);
        weights[i] = kept - step;
        double below = gain(false);
        weights[i] = kept;
        double numeric = -(above - below) / (2 * step);
        CHECK(fabs(numeric - gradient[i]) < 4e-4, "weight %u: %g, differences say %g", i, gradient[i], numeric);
        largest = fmax(largest, fabs(numeric));
    }
    CHECK(largest > 0.02, "the test is blind: no gradient above %g", largest);
}

static void test_gradient_matches_finite_differences(void) {
    prepare();
    compare_with_differences(true);
    for (uint32_t i = 0; i < network_parameters(&SMALL); i++) weights[i] *= 1.05f;
    compare_with_differences(false);
    fill(weights, 5, 0.7f);
}

// At first each ratio is 1 and the gain is that of the advantages; a reference of the same weights is at distance 0.
static void test_the_first_pass_is_where_the_answers_came_from(void) {
    learned total = {0};
    double advantages = 0;
    prepare();
    learner_refer(&LEARNER, weights, answers, ANSWERS);
    learner_pass(&LEARNER, weights, NULL, 1, answers, ANSWERS, true, &total);
    for (int i = 0; i < ANSWERS; i++) advantages += answers[i].advantage;
    CHECK(total.kl == 0 && fabs(total.gain - advantages) < 1e-9, "gain %g, KL %g", total.gain, total.kl);
    learner_refer(&LEARNER, frozen, answers, ANSWERS);
    learner_pass(&LEARNER, weights, NULL, 1, answers, ANSWERS, true, &total);
    CHECK(total.kl > 0, "KL %g", total.kl);
}

static void check_near(double found, double expected, const char *what) {
    CHECK(fabs(found - expected) < 1e-12, "%s is %.17g, not %.17g", what, found, expected);
}

static void test_advantages_are_relative_to_the_group(void) {
    double a[4] = {1, 0, 0, 0}, same[3] = {1, 1, 1};
    policy_advantages(a, a, 4);  // mean 1/4, deviation sqrt(3)/4
    check_near(a[0], sqrt(3), "the only right answer's");
    check_near(a[1], -1 / sqrt(3), "a wrong answer's");
    policy_advantages(same, same, 3);
    CHECK(same[0] == 0 && same[1] == 0 && same[2] == 0, "equal rewards say nothing");
}

static void test_a_token_by_hand(void) {
    const policy_terms terms = {.clip = 0.2, .beta = 0.5}, free = {.clip = 0, .beta = 0};
    double up = log(1.5), down = log(0.5), q = 0.5, kl = q - log(q) - 1;
    policy_token part = policy_of_token(&terms, 2, -1 + up, -1, -1 + up + log(q));
    check_near(part.kl, kl, "KL");
    check_near(part.gain, 1.2 * 2 - 0.5 * kl, "a clipped gain");
    check_near(part.slope, -0.5 * (1 - q), "only the penalty's slope is left");
    part = policy_of_token(&terms, -2, -1 + up, -1, -1 + up);
    check_near(part.gain, -3, "the larger loss counts");
    check_near(part.slope, -3, "its slope");
    part = policy_of_token(&terms, 2, -1 + down, -1, -1 + down);
    check_near(part.gain, 1, "a ratio that fell may rise");
    part = policy_of_token(&terms, -2, -1 + down, -1, -1 + down);
    check_near(part.gain, -1.6, "and need not fall further");
    check_near(part.slope, 0, "so its slope");
    part = policy_of_token(&free, 2, -1 + up, -1, -9);
    check_near(part.gain, 3, "without limits");
}

static void test_problems(void) {
    uint8_t text[QUESTION_BYTES];
    const problem largest = {.left = MOST_OPERAND, .right = MOST_OPERAND}, plain = {.left = 7, .right = 48};
    int seen[10] = {0};
    CHECK(problem_question(&largest, text) == QUESTION_BYTES, "the longest");
    CHECK(memcmp(text, "999999999+999999999=", QUESTION_BYTES) == 0, "%.20s", (char *)text);
    CHECK(problem_is_answered(&largest, (const uint8_t *)"1999999998", 10), "the longest answer");
    CHECK(problem_question(&plain, text) == 5 && memcmp(text, "7+48=", 5) == 0, "%.5s", (char *)text);
    static const char *const WRONG[] = {"", "5", "55 ", "055", "56", "555"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        CHECK(!problem_is_answered(&plain, (const uint8_t *)WRONG[i], (uint32_t)strlen(WRONG[i])), "%s", WRONG[i]);
    CHECK(problem_is_answered(&plain, (const uint8_t *)"55", 2), "55");
    for (uint64_t unit = 0; unit < 1000; unit++) {
        problem p = problem_draw(3, unit, 9), again = problem_draw(3, unit, 9);
        CHECK(p.left <= 9 && p.right <= 9 && p.left == again.left && p.answers_seed == again.answers_seed, "a draw");
        seen[p.left]++;
    }
    for (int i = 0; i < 10; i++) CHECK(seen[i] > 60 && seen[i] < 140, "%d drawn %d times", i, seen[i]);
}

int main(void) {
    start();
    test_answers_are_what_each_alone_would_be();
    test_tokens_are_drawn_by_their_chances();
    test_gradient_matches_finite_differences();
    test_the_first_pass_is_where_the_answers_came_from();
    test_advantages_are_relative_to_the_group();
    test_a_token_by_hand();
    test_problems();
    return 0;
}
