// The base module `mlp`: classification and regression of rows of numbers or bytes. The operations of Weei WASM ABI 1.
#include "../lib/functions.h"
#include "../lib/nn.h"
#include "../lib/optimizer.h"
#include "../lib/rng.h"
#include "network.h"

enum { STEPS_BETWEEN_REPORTS = 8 };

static float *weights;  // the host's buffer since loadModel; NULL = none
static float *initial_weights;  // what createInitialWeights answered last; NULL = nothing
static char *answer;            // what predict answered last, of answer_bytes; NULL = nothing
static uint32_t answer_bytes;

static uint32_t weight_bytes(const model *m) { return m->weights * (uint32_t)sizeof(float); }

static void *allocate(uint64_t bytes, const char *what) {
    uint32_t address = bytes > UINT32_MAX ? 0 : weei_alloc((uint32_t)bytes);
    if (address == 0) weei_fail("out of memory: %s needs %g bytes", what, (double)bytes);
    return address == 0 ? NULL : at_address(address);
}

static void release_initial_weights(const model *m) {
    if (initial_weights != NULL) weei_free(address_of(initial_weights), weight_bytes(m));
    initial_weights = NULL;
}

static void release_answer(void) {
    if (answer != NULL) weei_free(address_of(answer), answer_bytes);
    answer = NULL;
}

LONG_OPERATION(getModelInfo) {
    (void)request;
    const model *m = model_open();
    return m != NULL && config_write_info(&m->configuration, result);
}

WEEI_OPERATION(createInitialWeights) {
    uint64_t seed;
    const model *m = model_open();
    if (m == NULL || !weei_seed(request, &seed)) return false;
    if (initial_weights == NULL) initial_weights = allocate(weight_bytes(m), "a set of weights");
    if (initial_weights == NULL) return false;
    network_initialize(m, initial_weights, seed);
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(initial_weights));
    json_key(result, "bytes");
    json_integer(result, weight_bytes(m));
    json_close(result, '}');
    return true;
}

static bool all_finite(const float *block, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!is_finite(block[i])) return false;
    return true;
}

// The host's buffer becomes the weights: training works in it and returns it, so nothing is copied.
WEEI_OPERATION(loadModel) {
    weei_buffer buffer;
    const model *m = model_open();
    if (m == NULL || !weei_read_buffer(request, "weights", &buffer)) return false;
    if (buffer.bytes != weight_bytes(m))
        return weei_fail("weights has %g bytes, this model has %g", (double)buffer.bytes, (double)weight_bytes(m));
    float *loaded = at_address(buffer.address);
    if (!all_finite(loaded, m->weights)) return weei_fail("weights holds a value that is not finite");
    if (loaded == initial_weights) initial_weights = NULL;
    release_initial_weights(m);
    release_answer();
    if (weights != NULL && weights != loaded) weei_free(address_of(weights), weight_bytes(m));
    weights = loaded;
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

// The model, once it has weights to work with.
static const model *loaded_model(void) {
    const model *m = model_open();
    if (m == NULL || weights != NULL) return m;
    weei_fail("no weights are loaded: call loadModel first");
    return NULL;
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up_weights(const model *m, uint32_t epoch) {
    weei_free(address_of(weights), weight_bytes(m));
    weights = NULL;
    return weei_fail("training diverged in local epoch %g: a value is not finite; lower settings.learningRate",
                     (double)epoch);
}

static void write_metrics(const model *m, json_writer *w, const score *total) {
    double records = (double)total->records;
    json_key(w, "loss");
    json_number(w, total->loss / records);
    json_key(w, m->regression ? "mae" : "accuracy");
    json_number(w, (m->regression ? total->absolute : (double)total->correct) / records);
}

static bool is_useful(const score *total) { return is_finite(total->loss) && is_finite(total->absolute); }

// Everything that one training holds beside weights and data, in one block.
typedef struct {
    const model *model;
    rows data;
    weei_settings settings;
    activations tile;
    uint32_t *order;  // (records)
    float *gradients;        // (weights)
    float *mean, *square;    // (weights) of AdamW; NULL with SGD
    adamw moments;
    uint64_t processed, total, steps;
} run;

static void forward_tile(const run *r, const uint32_t *indices, uint32_t count, score *total) {
    rows_load(r->model, &r->data, indices, count, &r->tile.records);
    network_forward(r->model, weights, &r->tile, (int)count);
    network_score(r->model, &r->tile, total, (int)count);
}

// Biases do not decay: pulling them towards 0 is no regularisation.
static void update_range(const run *r, size_t at, size_t n, float factor, double decay) {
    const model *m = r->model;
    double rate = r->settings.learning_rate;
    if (m->optimizer == SGD)
        sgd_step(weights + at, r->gradients + at, factor, rate, decay, n);
    else
        adamw_step(&r->moments, weights + at, r->mean + at, r->square + at, r->gradients + at, factor, rate, decay, n);
}

static void update_weights(run *r) {
    const model *m = r->model;
    float factor = clip_factor(gradient_norm(r->gradients, m->weights), m->clip_norm);
    adamw_count_step(&r->moments);
    size_t at = 0;
    for (uint32_t layer = 0; layer < m->layers; layer++) {
        size_t biases = m->width[layer + 1], matrix = m->width[layer] * biases;
        update_range(r, at, matrix, factor, m->weight_decay);
        update_range(r, at + matrix, biases, factor, 0);
        at += matrix + biases;
    }
}

// One optimizer step on `count` records: the mean gradient, collected tile by tile.
static void train_batch(run *r, const uint32_t *indices, uint32_t count, score *total) {
    for (uint32_t i = 0; i < r->model->weights; i++) r->gradients[i] = 0;
    for (uint32_t at = 0; at < count; at += TILE) {
        uint32_t records = count - at < TILE ? count - at : TILE;
        forward_tile(r, indices + at, records, total);
        network_backward(r->model, weights, r->gradients, &r->tile, count, (int)records);
    }
    update_weights(r);
    r->processed += count;
    r->steps += 1;
}

static void report(const run *r, const score *epoch_score) {
    if (r->steps % STEPS_BETWEEN_REPORTS != 0 && r->processed < r->total) return;
    write_metrics(r->model, weei_begin_progress(r->processed, r->total, r->steps), epoch_score);
    weei_send_progress();
}

// Each local epoch has its own stream of random numbers and shuffles the order of the one before.
static bool train_epoch(run *r, uint64_t seed, uint32_t epoch, score *total) {
    rng shuffle = rng_start(seed, epoch);
    rng_shuffle(&shuffle, r->order, r->data.count);
    *total = (score){0};
    for (uint32_t at = 0; at < r->data.count;) {
        uint32_t left = r->data.count - at, records = left < r->settings.batch_size ? left : r->settings.batch_size;
        train_batch(r, r->order + at, records, total);
        if (!is_useful(total)) return give_up_weights(r->model, epoch);
        report(r, total);
        at += records;
    }
    return true;
}

static bool train(run *r, uint64_t seed, json_writer *result) {
    score total = {0};
    for (uint32_t i = 0; i < r->data.count; i++) r->order[i] = r->data.first + i;
    for (uint32_t epoch = 1; epoch <= r->settings.local_epochs; epoch++)
        if (!train_epoch(r, seed, epoch, &total)) return false;
    if (!all_finite(weights, r->model->weights)) return give_up_weights(r->model, r->settings.local_epochs);

    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, weight_bytes(r->model));
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(r->model, result, &total);  // of the last local epoch, while its steps were taken
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

static void *place(uint8_t *memory, uint64_t *at, uint64_t bytes) {
    void *part = memory == NULL ? NULL : memory + *at;
    *at += (bytes + 15) / 16 * 16;
    return part;
}

// Points the run into `memory` and returns how many bytes it takes; with NULL it only counts. The generator repeats the
// sum (architectures.py), so that the memory's maximum is what a training takes.
static uint64_t place_run(run *r, uint8_t *memory) {
    const model *m = r->model;
    uint64_t at = network_place(m, &r->tile, memory, TILE);
    r->order = place(memory, &at, (uint64_t)r->data.count * sizeof *r->order);
    r->gradients = place(memory, &at, weight_bytes(m));
    r->mean = m->optimizer == SGD ? NULL : place(memory, &at, weight_bytes(m));
    r->square = m->optimizer == SGD ? NULL : place(memory, &at, weight_bytes(m));
    return at;
}

// The optimizer starts empty, so that what comes back depends on the request and the weights alone.
static void start_optimizer(run *r) {
    const model *m = r->model;
    r->moments = adamw_start(m->beta1, m->beta2, m->epsilon);
    for (uint32_t i = 0; r->mean != NULL && i < m->weights; i++) r->mean[i] = r->square[i] = 0;
}

WEEI_OPERATION(train) {
    uint64_t seed, round;
    run r = {.model = loaded_model()};
    if (r.model == NULL) return false;
    r.settings.learning_rate = r.model->learning_rate;
    if (!rows_open(request, r.model, &r.data) || !weei_read_settings(request, &r.settings)) return false;
    if (!weei_integer(request, "round", 1, UINT32_MAX, &round) || !weei_seed(request, &seed)) return false;

    uint64_t bytes = place_run(&r, NULL);
    uint8_t *memory = allocate(bytes, "a training on this data");
    if (memory == NULL) return false;
    place_run(&r, memory);
    r.total = (uint64_t)r.data.count * r.settings.local_epochs;
    start_optimizer(&r);
    bool done = train(&r, seed, result);
    weei_free(address_of(memory), (uint32_t)bytes);
    return done;
}

WEEI_OPERATION(evaluate) {
    run r = {.model = loaded_model()};
    if (r.model == NULL || !rows_open(request, r.model, &r.data)) return false;
    uint64_t bytes = network_place(r.model, &r.tile, NULL, TILE);
    uint8_t *memory = allocate(bytes, "an evaluation");
    if (memory == NULL) return false;
    network_place(r.model, &r.tile, memory, TILE);
    score total = {0};
    while (total.records < r.data.count) {
        uint32_t indices[TILE], left = r.data.count - (uint32_t)total.records, records = left < TILE ? left : TILE;
        for (uint32_t i = 0; i < records; i++) indices[i] = r.data.first + (uint32_t)total.records + i;
        forward_tile(&r, indices, records, &total);
    }
    weei_free(address_of(memory), (uint32_t)bytes);
    if (!is_useful(&total)) return weei_fail("the loss is not finite: these weights are of no use");
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(r.model, result, &total);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, total.records);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(inspectData) {
    rows selected;
    const model *m = model_open();
    if (m == NULL || !rows_open(request, m, &selected)) return false;
    json_open(result, '{');
    json_key(result, "exampleCount");
    json_integer(result, selected.count);
    json_close(result, '}');
    return true;
}

static bool read_values(json request, const model *m, float *input) {
    json object, values, item = {0};
    const double limit = m->bytes ? 255 : 3.4e38;
    if (!weei_object(request, "input", &object)) return false;
    if (!json_member(object, "values", &values) || values.text[0] != '[')
        return weei_fail("input.values is not an array");
    uint32_t count = 0;
    for (; json_next(values, &item); count++) {
        double value;
        if (count == m->inputs || !json_to_double(item, &value) || value > limit || value < (m->bytes ? 0 : -limit))
            return weei_fail("input.values is not %g numbers from %g to %g", (double)m->inputs, m->bytes ? 0 : -limit,
                             limit);
        input[count] = normalized_input(m, count, (float)value);
    }
    return count == m->inputs ||
           weei_fail("input.values has %g numbers, allowed: %g", (double)count, (double)m->inputs);
}

static void write_classes(const model *m, json_writer *w, const float *probabilities) {
    char name[MOST_NAME_BYTES + 1];
    const uint8_t *at = m->names;
    for (int i = largest(probabilities, (int)m->outputs); i >= 0; i--) at = model_name(at, name);
    json_key(w, "label");
    json_string(w, name);
    json_key(w, "probabilities");
    json_open(w, '{');
    at = m->names;
    for (uint32_t i = 0; i < m->outputs; i++) {
        at = model_name(at, name);
        json_key(w, name);
        json_number(w, probabilities[i]);
    }
    json_close(w, '}');
}

static void write_values(const model *m, json_writer *w, const float *outputs) {
    json_key(w, "values");
    json_open(w, '[');
    for (uint32_t o = 0; o < m->outputs; o++) json_number(w, output_value(m, o, outputs[o]));
    json_close(w, ']');
}

// Room for every name twice as long (a quotation mark needs two characters), its number and what stands between.
static bool begin_answer(const model *m, json_writer *result) {
    enum { AROUND = 128, BETWEEN = 40 };
    uint64_t bytes = AROUND + 2 * MOST_NAME_BYTES + 2 * (uint64_t)m->names_bytes + (uint64_t)m->outputs * BETWEEN;
    release_answer();
    answer_bytes = (uint32_t)bytes;
    answer = allocate(bytes, "the answer");
    if (answer != NULL) json_start(result, answer, answer_bytes);
    return answer != NULL;
}

static bool predict_with(const model *m, const activations *a, json request, json_writer *result) {
    if (!read_values(request, m, a->records.input)) return false;
    network_forward(m, weights, a, 1);
    if (!m->regression) softmax_forward(a->doutputs, a->outputs, 1, (int)m->outputs);
    const float *found = m->regression ? a->outputs : a->doutputs;
    for (uint32_t o = 0; o < m->outputs; o++)
        if (!is_finite(m->regression ? output_value(m, o, found[o]) : found[o]))
            return weei_fail("an output is not finite: these weights are of no use");
    if (!begin_answer(m, result)) return false;
    json_open(result, '{');
    json_key(result, "output");
    json_open(result, '{');
    if (m->regression) write_values(m, result, found);
    else write_classes(m, result, found);
    json_close(result, '}');
    json_close(result, '}');
    return true;
}

LONG_OPERATION(predict) {
    activations a;
    const model *m = loaded_model();
    if (m == NULL) return false;
    uint64_t bytes = network_place(m, &a, NULL, 1);
    uint8_t *memory = allocate(bytes, "a prediction");
    if (memory == NULL) return false;
    network_place(m, &a, memory, 1);
    bool done = predict_with(m, &a, request, result);
    weei_free(address_of(memory), (uint32_t)bytes);
    return done;
}
