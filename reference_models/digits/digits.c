// The model `digits`: recognizes handwritten digits of 8 x 8 pixels. The operations of Weei WASM ABI 1.
#include "../lib/functions.h"
#include "../lib/nn.h"
#include "../lib/rng.h"
#include "network.h"

#define DEFAULT_LEARNING_RATE 0.05
static const float MOMENTUM = 0.9f;

enum {
    MOST_REPORTS = 48,      // progress reports of one training, and
    REPORTS_PER_EPOCH = 4,  // of one local epoch
};

// A fixed network needs no allocation: everything but the host's buffers and the record order is static.
static float *weights;  // (WEIGHTS), the host's buffer since loadModel; NULL = none
static float velocity[WEIGHTS];
static float gradient[WEIGHTS];
static float initial_weights[WEIGHTS];
static activations tile;

WEEI_OPERATION(getModelInfo) {
    (void)request;
    json_value(result,
               "{\"id\":\"digits\",\"version\":\"1.0.0\",\"name\":\"Handwritten digits\",\"abiVersion\":1,"
               "\"weightFormat\":\"float32-le\",\"maxWorkers\":1,\"maxChunkBytes\":6500016,"
               "\"maxExamplesPerChunk\":100000,"
               "\"dataFormats\":[{\"id\":\"digits-u8-v1\",\"label\":\"8 × 8 digits with labels\","
               "\"acceptedMimeTypes\":[\"application/octet-stream\"]}],"
               "\"metrics\":[{\"id\":\"loss\",\"label\":\"Loss\",\"direction\":\"minimize\"},"
               "{\"id\":\"accuracy\",\"label\":\"Accuracy\",\"direction\":\"maximize\"}],"
               "\"capabilities\":{\"evaluation\":true,\"inference\":true,\"inspection\":true,\"recordRanges\":true},"
               "\"inference\":{\"inputs\":[{\"id\":\"pixels\",\"label\":\"8 × 8 image, row by row\","
               "\"type\":\"numbers\",\"count\":64,\"columns\":8,\"minimum\":0,\"maximum\":16}],"
               "\"outputs\":[{\"id\":\"label\",\"label\":\"Digit\",\"type\":\"integer\"},"
               "{\"id\":\"probabilities\",\"label\":\"Probability of 0 to 9\",\"type\":\"numbers\",\"count\":10}]}}");
    return true;
}
_Static_assert(MOST_BYTES == 6500016 && MOST_RECORDS == 100000, "ModelInfo states these");

WEEI_OPERATION(createInitialWeights) {
    uint64_t seed;
    if (!weei_seed(request, &seed)) return false;
    network_initialize(initial_weights, seed);
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(initial_weights));
    json_key(result, "bytes");
    json_integer(result, WEIGHT_BYTES);
    json_close(result, '}');
    return true;
}

static bool all_finite(const float *block) {
    for (int i = 0; i < WEIGHTS; i++)
        if (!is_finite(block[i])) return false;
    return true;
}

// The host's buffer becomes the weights: training works in it and returns it, so nothing is copied.
WEEI_OPERATION(loadModel) {
    weei_buffer buffer;
    if (!weei_read_buffer(request, "weights", &buffer)) return false;
    if (buffer.bytes != WEIGHT_BYTES)
        return weei_fail("weights has %g bytes, this model has %g", (double)buffer.bytes, (double)WEIGHT_BYTES);
    float *loaded = at_address(buffer.address);
    if (!all_finite(loaded)) return weei_fail("weights holds a value that is not finite");
    if (weights != NULL && weights != loaded) weei_free(address_of(weights), WEIGHT_BYTES);
    weights = loaded;
    for (int i = 0; i < WEIGHTS; i++) velocity[i] = 0;
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

static bool model_is_loaded(void) {
    return weights != NULL || weei_fail("no weights are loaded: call loadModel first");
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up_weights(uint32_t epoch) {
    weei_free(address_of(weights), WEIGHT_BYTES);
    weights = NULL;
    return weei_fail("training diverged in local epoch %g: a value is not finite; lower settings.learningRate",
                     (double)epoch);
}

static void write_metrics(json_writer *w, const score *total) {
    json_key(w, "loss");
    json_number(w, total->loss / (double)total->records);
    json_key(w, "accuracy");
    json_number(w, (double)total->correct / (double)total->records);
}

// Forward pass of up to TILE records; adds to `total`.
static void forward_tile(const parameters *p, const dataset *d, const uint32_t *indices, uint32_t count, score *total) {
    dataset_load(d, indices, count, tile.input, tile.labels);
    network_forward(p, &tile, (int)count);
    network_score(&tile, total, (int)count);
}

// One optimizer step on `count` records: the mean gradient, collected tile by tile.
static void train_batch(const dataset *d, const uint32_t *indices, uint32_t count, float rate, score *total) {
    parameters p = network_parameters(weights), g = network_parameters(gradient);
    for (int i = 0; i < WEIGHTS; i++) gradient[i] = 0;
    for (uint32_t at = 0; at < count; at += TILE) {
        uint32_t records = count - at < TILE ? count - at : TILE;
        forward_tile(&p, d, indices + at, records, total);
        network_backward(&p, &g, &tile, 1 / (float)count, (int)records);
    }
    momentum_step(weights, velocity, gradient, rate, MOMENTUM, WEIGHTS);
}

typedef struct {
    uint64_t processed, total, steps;
    uint64_t interval, next_report;  // in examples
} run;

static run start_run(uint32_t records, uint32_t epochs) {
    uint64_t total = (uint64_t)records * epochs;
    uint64_t by_epoch = records / REPORTS_PER_EPOCH, by_run = total / MOST_REPORTS + 1;
    uint64_t interval = by_epoch > by_run ? by_epoch : by_run;
    return (run){.total = total, .interval = interval, .next_report = interval};
}

static void report(run *r, const score *epoch_score) {
    if (r->processed < r->next_report && r->processed < r->total) return;
    r->next_report = r->processed + r->interval;
    write_metrics(weei_begin_progress(r->processed, r->total, r->steps), epoch_score);
    weei_send_progress();
}

// Each local epoch has its own stream of random numbers and shuffles the order of the one before.
static bool train_epoch(const dataset *d, uint32_t *order, const weei_settings *settings, uint64_t seed, uint32_t epoch,
                        run *r, score *total) {
    rng shuffle = rng_start(seed, epoch);
    rng_shuffle(&shuffle, order, d->count);
    *total = (score){0};
    for (uint32_t at = 0; at < d->count; at += settings->batch_size) {
        uint32_t left = d->count - at, records = left < settings->batch_size ? left : settings->batch_size;
        train_batch(d, order + at, records, (float)settings->learning_rate, total);
        // The loss becomes NaN or infinite as soon as a weight does, except for weights of dark pixels.
        if (!is_finite(total->loss)) return give_up_weights(epoch);
        r->processed += records;
        r->steps += 1;
        report(r, total);
    }
    return true;
}

static bool train(const dataset *d, uint32_t *order, const weei_settings *settings, uint64_t seed,
                  json_writer *result) {
    run r = start_run(d->count, settings->local_epochs);
    score total;
    for (uint32_t i = 0; i < d->count; i++) order[i] = d->first + i;
    for (uint32_t epoch = 1; epoch <= settings->local_epochs; epoch++)
        if (!train_epoch(d, order, settings, seed, epoch, &r, &total)) return false;
    if (!all_finite(weights)) return give_up_weights(settings->local_epochs);

    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, WEIGHT_BYTES);
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &total);  // of the last local epoch, while its steps were taken
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r.processed);
    json_key(result, "uniqueExamples");
    json_integer(result, d->count);
    json_key(result, "optimizerSteps");
    json_integer(result, r.steps);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(train) {
    weei_settings settings = {.learning_rate = DEFAULT_LEARNING_RATE};
    dataset selected;
    uint64_t seed, round;
    if (!model_is_loaded() || !dataset_open(request, &selected)) return false;
    if (!weei_read_settings(request, &settings) || !weei_seed(request, &seed)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;

    uint32_t bytes = selected.count * (uint32_t)sizeof(uint32_t);
    uint32_t order = weei_alloc(bytes);
    if (order == 0) return weei_fail("out of memory: the order of the records needs %g bytes", (double)bytes);
    bool done = train(&selected, at_address(order), &settings, seed, result);
    weei_free(order, bytes);
    return done;
}

WEEI_OPERATION(evaluate) {
    dataset selected;
    if (!model_is_loaded() || !dataset_open(request, &selected)) return false;
    parameters p = network_parameters(weights);
    score total = {0};
    while (total.records < selected.count) {
        uint32_t indices[TILE], left = selected.count - (uint32_t)total.records, records = left < TILE ? left : TILE;
        for (uint32_t i = 0; i < records; i++) indices[i] = selected.first + (uint32_t)total.records + i;
        forward_tile(&p, &selected, indices, records, &total);
    }
    if (!is_finite(total.loss)) return weei_fail("the loss is not finite: these weights are of no use");
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, &total);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, total.records);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(inspectData) {
    dataset selected;
    if (!dataset_open(request, &selected)) return false;
    json_open(result, '{');
    json_key(result, "exampleCount");
    json_integer(result, selected.count);
    json_close(result, '}');
    return true;
}

static bool read_pixels(json request) {
    json input, pixels, item = {0};
    if (!weei_object(request, "input", &input)) return false;
    if (!json_member(input, "pixels", &pixels) || pixels.text[0] != '[')
        return weei_fail("input.pixels is not an array");
    int count = 0;
    for (; json_next(pixels, &item); count++) {
        double value;
        if (count == PIXELS || !json_to_double(item, &value) || value < 0 || value > BRIGHTEST)
            return weei_fail("input.pixels is not %g numbers from 0 to %g", (double)PIXELS, (double)BRIGHTEST);
        tile.input[count] = (float)value * (1.0f / BRIGHTEST);
    }
    return count == PIXELS || weei_fail("input.pixels has %g numbers, allowed: %g", (double)count, (double)PIXELS);
}

WEEI_OPERATION(predict) {
    if (!model_is_loaded() || !read_pixels(request)) return false;
    parameters p = network_parameters(weights);
    network_forward(&p, &tile, 1);
    for (int i = 0; i < DIGITS; i++)
        if (!is_finite(tile.probabilities[i]))
            return weei_fail("a probability is not finite: these weights are of no use");
    json_open(result, '{');
    json_key(result, "output");
    json_open(result, '{');
    json_key(result, "label");
    json_integer(result, (uint64_t)largest(tile.probabilities, DIGITS));
    json_key(result, "probabilities");
    json_open(result, '[');
    for (int i = 0; i < DIGITS; i++) json_number(result, tile.probabilities[i]);
    json_close(result, ']');
    json_close(result, '}');
    json_close(result, '}');
    return true;
}
