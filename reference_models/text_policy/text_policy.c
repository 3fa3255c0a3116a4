// The base module `text_policy`: tunes the transformer's weights on sums by the rewards of sampled answers, with a
// penalty for what it moves away from the weights it began with (policy.h). The operations of Weei WASM ABI 1; sizes,
// defaults and vocabulary come from its configuration, which is the transformer's with the values of `policy` behind.
//
// Memory does not depend on the batch beyond the assignment's units. With Q bytes of the longest question, A tokens of
// the longest answer, G answers of each of N problems, and P, R, V of transformer.c, in bytes:
//
//   the host's     weights 4 P, reference 4 P, requests
//   a work         tile of transformer.c, 12 R, tokenizer's tables, 16 V
//   answers        G N (sizeof(answer) + 2 (Q + A) + 16 A), evaluation: one
//   training       gradient 4 P, AdamW's means 8 P (none with SGD)
//
// each part rounded up to 16. TextPolicyArchitecture.memory_bytes of the generator counts the same.
#include "../lib/functions.h"
#include "../lib/tokens.h"
#include "../transformer/prediction.h"
#include "learner.h"
#include "problem.h"

enum { MOST_UNITS = 1024, MOST_ANSWERS = 256, MOST_LONGEST = 64, LONGEST_TEXT = 256 };

typedef struct {
    model m;
    vocabulary words;
    policy_terms terms;
    double temperature;
    uint32_t group, largest, longest, question_bytes;
} policy;

static float *reference;  // (parameters), the host's buffer since loadAuxiliary; NULL = none

static bool read_policy(policy *p) {
    const config *c = &p->m.source;
    if (!config_integer(c, MODEL_VALUES, "group size", 2, MOST_ANSWERS, &p->group)) return false;
    if (!config_number(c, MODEL_VALUES + 1, "KL coefficient", 0, 1000, &p->terms.beta)) return false;
    if (!config_number(c, MODEL_VALUES + 2, "clip epsilon", 0, 0.99, &p->terms.clip)) return false;
    if (!config_integer(c, MODEL_VALUES + 3, "largest operand", 1, MOST_OPERAND, &p->largest)) return false;
    if (!config_number(c, MODEL_VALUES + 4, "temperature", 0.01, 10, &p->temperature)) return false;
    if (!config_integer(c, MODEL_VALUES + 5, "longest answer", 2, MOST_LONGEST, &p->longest)) return false;
    if (p->m.end_token < 0) return weei_fail("The configuration has no end token, which answers must end with.");
    uint8_t question[QUESTION_BYTES];
    p->question_bytes = problem_question(&(problem){.left = p->largest, .right = p->largest}, question);
    uint32_t positions = p->question_bytes + p->longest - 1;
    return positions <= (uint32_t)p->m.s.context ||
           weei_fail("The configuration's context is %g, allowed with these problems and answers: %g or more.",
                     (double)p->m.s.context, (double)positions);
}

static bool policy_open(policy *p) {
    const model *m = &p->m;
    return model_open_loaded(&p->m, CONFIG_TEXT_POLICY) && read_policy(p) &&
           vocabulary_open(&p->words, m->source.vocab, m->source.vocab_bytes, (uint32_t)m->s.vocabulary);
}

LONG_OPERATION(getModelInfo) {
    (void)request;
    model m;
    return model_open(&m, CONFIG_TEXT_POLICY) && config_write_info(&m.source, result);
}

WEEI_OPERATION(createInitialWeights) {
    model m;
    return model_open(&m, CONFIG_TEXT_POLICY) && model_create(&m, request, result);
}

static void replace_reference(const model *m, float *loaded) {
    if (reference != loaded) release(reference, weight_bytes(m));
    reference = loaded;
}

WEEI_OPERATION(loadModel) {
    model m;
    if (!model_open(&m, CONFIG_TEXT_POLICY) || !model_load(&m, request, result)) return false;
    replace_reference(&m, NULL);
    return true;
}

WEEI_OPERATION(loadAuxiliary) {
    model m;
    json id;
    float *loaded;
    if (!model_open_loaded(&m, CONFIG_TEXT_POLICY)) return false;
    if (!json_member(request, "id", &id) || !json_is_text(id, "reference")) return weei_fail("id is not reference");
    if (!model_read_weights(&m, request, &loaded)) return false;
    replace_reference(&m, loaded);
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

// What an evaluation or a training works with, in one block of the heap.
typedef struct {
    const policy *p;
    weei_experience work;
    weei_settings settings;
    step_settings step;
    tile t;
    learner l;
    sampler how;
    void *encoding;    // (vocabulary_scratch)
    answer *answers;   // (answer_count)
    float *gradient;   // (parameters)
    float *means;      // (2 * parameters), NULL with SGD
    uint32_t answer_count, played, exact;
    uint64_t steps;
    learned total;     // of each batch's last pass
} run;

// Gives out the memory behind `base`, or only counts it.
static void *take(uint8_t *base, uint64_t *used, uint64_t bytes) {
    void *at = base == NULL ? NULL : base + *used;
    *used += aligned(bytes);
    return at;
}

static void place_answers(run *r, uint8_t *base, uint64_t *used) {
    uint32_t n = r->answer_count, longest = r->p->longest, tokens = r->p->question_bytes + longest;
    r->answers = take(base, used, (uint64_t)n * sizeof(answer));
    uint16_t *token = take(base, used, 2 * (uint64_t)n * tokens);
    double *before = take(base, used, 8 * (uint64_t)n * longest);
    double *under = take(base, used, 8 * (uint64_t)n * longest);
    for (uint32_t i = 0; i < n && base != NULL; i++)
        r->answers[i] = (answer){.tokens = token + (size_t)i * tokens,
                                 .before = before + (size_t)i * longest,
                                 .reference = under + (size_t)i * longest};
}

// Places the arrays of a run from `base` on and returns their bytes; NULL only measures.
static uint64_t run_place(run *r, uint8_t *base, bool training) {
    const model *m = &r->p->m;
    uint64_t used = 0, rows = (uint64_t)tile_rows(&m->s);
    r->encoding = take(base, &used, vocabulary_scratch(&r->p->words, QUESTION_BYTES));
    r->how.candidates = take(base, &used, generate_scratch(&m->s));
    r->l.weight = take(base, &used, 4 * rows);
    r->l.loss = take(base, &used, 8 * rows);
    place_answers(r, base, &used);
    if (training) r->gradient = take(base, &used, weight_bytes(m));
    if (training && m->adamw) r->means = take(base, &used, 2 * (uint64_t)weight_bytes(m));
    return used + tile_place(&r->t, &m->s, base == NULL ? NULL : base + used);
}

static uint8_t *run_allocate(run *r, bool training, uint64_t *bytes) {
    const policy *p = r->p;
    *bytes = run_place(r, NULL, training);
    uint8_t *base = allocate(*bytes, training ? "training" : "the evaluation");
    if (base == NULL) return NULL;
    run_place(r, base, training);
    r->how.s = r->l.s = &p->m.s;
    r->how.t = r->l.t = &r->t;
    r->how.block = model_weights;
    r->how.end_token = (uint32_t)p->m.end_token;
    r->how.longest = p->longest;
    r->l.terms = p->terms;
    r->l.sharpness = (float)(1 / p->temperature);
    return base;
}

// Whether it ended and its text is the problem's answer.
static bool is_exact(const policy *p, const problem *asked, const answer *a) {
    uint8_t text[LONGEST_TEXT];
    uint32_t bytes = 0;
    for (uint32_t i = 0; i + 1 < a->length; i++) {
        uint32_t length;
        const uint8_t *own = vocabulary_text(&p->words, a->tokens[a->question + i], &length);
        if (length > LONGEST_TEXT - bytes) return false;
        for (uint32_t b = 0; b < length; b++) text[bytes++] = own[b];
    }
    return a->ended && problem_is_answered(asked, text, bytes);
}

// Answers one unit `count` times; each answer's reward stands in its advantage.
static bool answer_unit(run *r, uint64_t unit, answer *answers, uint32_t count) {
    const policy *p = r->p;
    uint8_t question[QUESTION_BYTES];
    problem asked = problem_draw(r->work.seed, unit, p->largest);
    uint32_t bytes = problem_question(&asked, question);
    const uint32_t *ids = vocabulary_encode(&p->words, question, bytes, r->encoding, &answers[0].question);
    if (ids == NULL) return false;
    for (uint32_t i = 0; i < answers[0].question; i++) answers[0].tokens[i] = (uint16_t)ids[i];
    if (!answers_sample(&r->how, asked.answers_seed, answers, count)) return false;
    for (uint32_t i = 0; i < count; i++) {
        bool exact = is_exact(p, &asked, &answers[i]);
        answers[i].advantage = exact;
        r->exact += exact;
    }
    return true;
}

static void find_advantages(answer *answers, uint32_t count) {
    double values[MOST_ANSWERS];
    for (uint32_t i = 0; i < count; i++) values[i] = answers[i].advantage;
    policy_advantages(values, values, count);
    for (uint32_t i = 0; i < count; i++) answers[i].advantage = values[i];
}

// Answers problems with the weights as they stand, then takes a step on all of the answers for each local epoch.
static bool train_batch(run *r, uint32_t problems) {
    uint32_t group = r->p->group, count = problems * group;
    const model *m = &r->p->m;
    for (uint32_t i = 0; i < problems; i++) {
        answer *own = r->answers + (size_t)i * group;
        if (!answer_unit(r, r->work.unit_start + r->played + i, own, group)) return false;
        find_advantages(own, group);
    }
    learner_refer(&r->l, reference, r->answers, count);
    for (uint32_t epoch = 1; epoch <= r->settings.local_epochs; epoch++) {
        learned total = {0};
        clear(r->gradient, m->parameters);
        learner_pass(&r->l, model_weights, r->gradient, 1 / (double)count, r->answers, count, epoch == 1, &total);
        if (!is_finite(total.gain)) return false;
        network_step(&m->s, model_weights, r->means, r->gradient, &r->step);
        r->steps++;
        if (epoch < r->settings.local_epochs) continue;
        r->total.gain += total.gain;
        r->total.kl += total.kl;
    }
    r->played += problems;
    return true;
}

static void write_metrics(json_writer *w, const run *r) {
    double answers = (double)r->played * r->p->group;
    json_key(w, "exact");
    json_number(w, r->exact / answers);
    json_key(w, "kl");
    json_number(w, r->total.kl / answers);
    json_key(w, "loss");
    json_number(w, -r->total.gain / answers);
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up(const run *r) {
    model_give_up_weights(&r->p->m);
    return weei_fail("training diverged after %g problems: a value is not finite; lower settings.learningRate",
                     (double)r->played);
}

static bool train(run *r, json_writer *result) {
    const model *m = &r->p->m;
    if (r->means != NULL) clear(r->means, 2 * (uint64_t)m->parameters);
    while (r->played < r->work.unit_count) {
        uint32_t left = r->work.unit_count - r->played, batch = r->settings.batch_size;
        if (!train_batch(r, left < batch ? left : batch)) return give_up(r);
        write_metrics(weei_begin_progress(r->played, r->work.unit_count, r->steps), r);
        weei_send_progress();
    }
    if (!all_finite(model_weights, m->parameters)) return give_up(r);
    json_open(result, '{');
    weei_write_buffer(result, "weights", model_weights, weight_bytes(m));
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, r);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r->played);
    json_key(result, "uniqueExamples");
    json_integer(result, r->played);
    json_key(result, "optimizerSteps");
    json_integer(result, r->steps);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(train) {
    policy p;
    uint64_t round, bytes;
    if (!policy_open(&p)) return false;
    if (reference == NULL) return weei_fail("no reference is loaded: call loadAuxiliary first");
    run r = {.p = &p, .settings = {.learning_rate = p.m.learning_rate}, .how = {.temperature = p.temperature}};
    if (!weei_read_experience(request, MOST_UNITS, &r.work) || !weei_read_settings(request, &r.settings)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;
    r.step = model_step(&p.m, r.settings.learning_rate);
    uint32_t batch = r.settings.batch_size, units = r.work.unit_count;
    r.answer_count = p.group * (units < batch ? units : batch);
    uint8_t *base = run_allocate(&r, true, &bytes);
    if (base == NULL) return false;
    bool done = train(&r, result);
    release(base, (uint32_t)bytes);
    return done;
}

// The share of the units' problems that the likeliest tokens answer.
static bool evaluate(run *r, json_writer *result) {
    for (; r->played < r->work.unit_count; r->played++)
        if (!answer_unit(r, r->work.unit_start + r->played, r->answers, 1)) return false;
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    json_key(result, "exact");
    json_number(result, (double)r->exact / r->played);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r->played);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(evaluate) {
    policy p;
    uint64_t bytes;
    if (!policy_open(&p)) return false;
    run r = {.p = &p, .answer_count = 1};
    if (!weei_read_experience(request, MOST_UNITS, &r.work)) return false;
    uint8_t *base = run_allocate(&r, false, &bytes);
    if (base == NULL) return false;
    bool done = evaluate(&r, result);
    release(base, (uint32_t)bytes);
    return done;
}

LONG_OPERATION(predict) {
    model m;
    return model_open_loaded(&m, CONFIG_TEXT_POLICY) && model_predict(&m, request, result);
}
