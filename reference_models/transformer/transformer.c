// The base module `transformer`: continues text. The operations of Weei WASM ABI 1; sizes, defaults and vocabulary come
// from its configuration.
//
// Memory does not depend on the batch: records go through the network in tiles of R = max(T, 256) rows, and a batch's
// gradient is collected tile by tile. With P parameters, W = max(H, 3 D) and n records, in bytes:
//
//   the host's     weights 4 P, chunk, requests of at most 1,024 each
//   training       order 4 n, gradient 4 P, AdamW's means 8 P (none with SGD)
//   a tile         4 (R (L (6 D + H) + 4 D + 2 W) + 128 (2 D + V) + 2 T (T + 7) + 8 max(T, D / heads) + 8 max(R, W, V))
//                  and 24 R + 20 L + 128 of small arrays
//   prediction     10 of each byte of text, 64 of each token of the vocabulary at most
//
// each part rounded up to 16. TransformerArchitecture.memory_bytes of the generator counts the same, and a test trains
// with that and not with a page less.
#include "../lib/functions.h"
#include "../lib/rng.h"
#include "dataset.h"
#include "prediction.h"

enum { STEPS_PER_REPORT = 8 };

LONG_OPERATION(getModelInfo) {
    (void)request;
    model m;
    return model_open(&m, CONFIG_TRANSFORMER) && config_write_info(&m.source, result);
}

WEEI_OPERATION(createInitialWeights) {
    model m;
    return model_open(&m, CONFIG_TRANSFORMER) && model_create(&m, request, result);
}

WEEI_OPERATION(loadModel) {
    model m;
    return model_open(&m, CONFIG_TRANSFORMER) && model_load(&m, request, result);
}

static bool give_up_weights(const model *m, uint32_t epoch) {
    model_give_up_weights(m);
    return weei_fail("training diverged in local epoch %g: a value is not finite; lower settings.learningRate",
                     (double)epoch);
}

// Sums over records of one epoch or evaluation.
typedef struct {
    token_score tokens;
    uint64_t records, exact;
} score;

static void write_metrics(json_writer *w, const dataset *d, const score *total) {
    json_key(w, "loss");
    json_number(w, total->tokens.loss / (double)total->tokens.targets);
    json_key(w, "accuracy");
    json_number(w, (double)total->tokens.correct / (double)total->tokens.targets);
    if (!d->partial) return;
    json_key(w, "exact");
    json_number(w, (double)total->exact / (double)total->records);
}

static void count_records(const tile *t, score *total) {
    total->records += (uint64_t)t->span_count;
    for (int i = 0; i < t->span_count; i++) total->exact += !t->spans[i].missed;
}

// What training works with, in one block of the heap.
typedef struct {
    const model *m;
    dataset data;
    weei_settings settings;
    step_settings step;
    tile t;
    uint32_t *order;   // (records)
    float *gradient;   // (parameters)
    float *means;      // (2 * parameters), NULL with SGD
    uint64_t processed, total, steps;
} run;

// Places the arrays of a run from `base` on and returns their bytes; NULL only measures.
static uint64_t run_place(run *r, uint8_t *base, bool training) {
    uint64_t order = aligned(4 * (uint64_t)r->data.count), block = training ? aligned(weight_bytes(r->m)) : 0;
    uint64_t means = training && r->m->adamw ? aligned(2 * (uint64_t)weight_bytes(r->m)) : 0;
    if (base != NULL) {
        r->order = (uint32_t *)(void *)base;
        r->gradient = training ? (float *)(void *)(base + order) : NULL;
        r->means = means > 0 ? (float *)(void *)(base + order + block) : NULL;
    }
    uint64_t before = order + block + means;
    return before + tile_place(&r->t, &r->m->s, base == NULL ? NULL : base + before);
}

static uint8_t *run_allocate(run *r, bool training, uint64_t *bytes) {
    *bytes = run_place(r, NULL, training);
    uint8_t *base = allocate(*bytes, training ? "training" : "the evaluation");
    if (base == NULL) return NULL;
    run_place(r, base, training);
    for (uint32_t i = 0; i < r->data.count; i++) r->order[i] = r->data.first + i;
    return base;
}

// Scores of order[at … end), and for training the gradient of their mean loss over all of these targets.
static void pass(run *r, uint32_t at, uint32_t end, float scale, score *total) {
    while (at < end) {
        at += dataset_load(&r->data, &r->m->s, r->order, at, end, &r->t);
        network_forward(&r->m->s, model_weights, &r->t, 0);
        network_learn(&r->m->s, model_weights, r->gradient, &r->t, scale, &total->tokens);
        count_records(&r->t, total);
    }
}

static void train_batch(run *r, uint32_t at, uint32_t end, score *total) {
    uint64_t targets = 0;
    for (uint32_t i = at; i < end; i++) {
        token_record record = dataset_record(&r->data, r->order[i]);
        targets += record.length - record.first_target;
    }
    clear(r->gradient, r->m->parameters);
    pass(r, at, end, 1 / (float)targets, total);
    network_step(&r->m->s, model_weights, r->means, r->gradient, &r->step);
}

// Each local epoch has its own stream of random numbers and shuffles the order of the one before.
static bool train_epoch(run *r, uint64_t seed, uint32_t epoch, score *total) {
    rng shuffle = rng_start(seed, epoch);
    rng_shuffle(&shuffle, r->order, r->data.count);
    *total = (score){0};
    for (uint32_t at = 0; at < r->data.count;) {
        uint32_t left = r->data.count - at, records = left < r->settings.batch_size ? left : r->settings.batch_size;
        train_batch(r, at, at + records, total);
        if (!is_finite(total->tokens.loss)) return give_up_weights(r->m, epoch);
        at += records;
        r->processed += records;
        r->steps++;
        if (r->steps % STEPS_PER_REPORT != 0 && r->processed < r->total) continue;
        write_metrics(weei_begin_progress(r->processed, r->total, r->steps), &r->data, total);
        weei_send_progress();
    }
    return true;
}

static bool train(run *r, uint64_t seed, json_writer *result) {
    score total;
    if (r->means != NULL) clear(r->means, 2 * (uint64_t)r->m->parameters);
    for (uint32_t epoch = 1; epoch <= r->settings.local_epochs; epoch++)
        if (!train_epoch(r, seed, epoch, &total)) return false;
    if (!all_finite(model_weights, r->m->parameters)) return give_up_weights(r->m, r->settings.local_epochs);

    json_open(result, '{');
    weei_write_buffer(result, "weights", model_weights, weight_bytes(r->m));
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &r->data, &total);  // of the last local epoch, while its steps were taken
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r->processed);
    json_key(result, "uniqueExamples");
    json_integer(result, r->data.count);
    json_key(result, "optimizerSteps");
    json_integer(result, r->steps);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(train) {
    model m;
    uint64_t seed, round, bytes;
    if (!model_open_loaded(&m, CONFIG_TRANSFORMER)) return false;
    run r = {.m = &m, .settings = {.learning_rate = m.learning_rate}};
    if (!dataset_open(request, &m.s, &r.data)) return false;
    if (!weei_read_settings(request, &r.settings) || !weei_seed(request, &seed)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;
    r.total = (uint64_t)r.data.count * r.settings.local_epochs;
    r.step = model_step(&m, r.settings.learning_rate);
    uint8_t *base = run_allocate(&r, true, &bytes);
    if (base == NULL) return false;
    bool done = train(&r, seed, result);
    release(base, (uint32_t)bytes);
    return done;
}

WEEI_OPERATION(evaluate) {
    model m;
    score total = {0};
    uint64_t bytes;
    if (!model_open_loaded(&m, CONFIG_TRANSFORMER)) return false;
    run r = {.m = &m};
    if (!dataset_open(request, &m.s, &r.data)) return false;
    uint8_t *base = run_allocate(&r, false, &bytes);
    if (base == NULL) return false;
    pass(&r, 0, r.data.count, 0, &total);
    release(base, (uint32_t)bytes);
    if (!is_finite(total.tokens.loss)) return weei_fail("the loss is not finite: these weights are of no use");
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &r.data, &total);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, total.records);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(inspectData) {
    model m;
    dataset selected;
    if (!model_open(&m, CONFIG_TRANSFORMER) || !dataset_open(request, &m.s, &selected)) return false;
    json_open(result, '{');
    json_key(result, "exampleCount");
    json_integer(result, selected.count);
    json_close(result, '}');
    return true;
}

LONG_OPERATION(predict) {
    model m;
    return model_open_loaded(&m, CONFIG_TRANSFORMER) && model_predict(&m, request, result);
}
