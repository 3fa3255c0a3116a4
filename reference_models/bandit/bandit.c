// The model `record-bandit`: experience over records. A record is a context with a hidden best action; a softmax-linear
// policy picks one of three, is rewarded with 1 for the best and learns by REINFORCE (Williams 1992).
#include "../lib/functions.h"
#include "../lib/nn.h"
#include "../lib/rng.h"
#include "dataset.h"

#define DEFAULT_LEARNING_RATE 1

enum {
    WEIGHTS = FEATURES * ACTIONS + ACTIONS,
    WEIGHT_BYTES = 4 * WEIGHTS,
    TILE = 32,          // records that go through the policy at a time: memory does not depend on batchSize
    MOST_REPORTS = 48,  // progress reports of one training
};

// One block: the matrix (FEATURES, ACTIONS), then the biases (ACTIONS).
static float *weights;  // (WEIGHTS), the host's buffer since loadModel; NULL = none
static float gradient[WEIGHTS];
static float initial_weights[WEIGHTS];

static float *biases(float *block) { return block + FEATURES * ACTIONS; }

static struct {
    float contexts[TILE * FEATURES];      // (B, FEATURES)
    float logits[TILE * ACTIONS];         // (B, ACTIONS)
    float probabilities[TILE * ACTIONS];  // (B, ACTIONS)
    float dlogits[TILE * ACTIONS];        // (B, ACTIONS)
    uint8_t best_actions[TILE];           // (B)
} tile;

WEEI_OPERATION(getModelInfo) {
    (void)request;
    json_value(result,
               "{\"id\":\"record-bandit\",\"version\":\"1.0.0\",\"name\":\"Bandit over records\",\"abiVersion\":1,"
               "\"weightFormat\":\"float32-le\",\"maxWorkers\":1,\"maxChunkBytes\":200016,"
               "\"maxExamplesPerChunk\":10000,"
               "\"dataFormats\":[{\"id\":\"bandit-f32-v1\",\"label\":\"Contexts with their best action\","
               "\"acceptedMimeTypes\":[\"application/octet-stream\"]}],"
               "\"metrics\":[{\"id\":\"reward\",\"label\":\"Mean reward\",\"direction\":\"maximize\"}],"
               "\"capabilities\":{\"evaluation\":true,\"inspection\":true,\"recordRanges\":true},"
               "\"workSource\":{\"kind\":\"experience\",\"inputs\":\"dataset\","
               "\"unit\":{\"id\":\"record\",\"label\":\"Records\"},"
               "\"unitsPerAssignment\":{\"default\":64,\"minimum\":1,\"maximum\":10000},\"evaluationUnits\":0},"
               "\"auxiliaryWeights\":[]}");
    return true;
}
_Static_assert(MOST_BYTES == 200016 && MOST_RECORDS == 10000, "ModelInfo states these");

WEEI_OPERATION(createInitialWeights) {
    uint64_t seed;
    if (!weei_seed(request, &seed)) return false;
    rng r = rng_start(seed, 0);
    for (int i = 0; i < FEATURES * ACTIONS; i++) initial_weights[i] = rng_uniform(&r, 0.25f);
    for (int i = 0; i < ACTIONS; i++) biases(initial_weights)[i] = 0;
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
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

typedef struct {
    dataset records;
    weei_experience units;  // record i of the selected ones is unit unit_start + i
} work;

// What train and evaluate have in common. A unit is a record, so both counts must agree.
static bool read_work(json request, work *w) {
    if (weights == NULL) return weei_fail("no weights are loaded: call loadModel first");
    if (!dataset_open(request, &w->records)) return false;
    if (!weei_read_experience(request, MOST_RECORDS, &w->units)) return false;
    return w->units.unit_count == w->records.count ||
           weei_fail("experience.unitCount is %g, data selects %g records", (double)w->units.unit_count,
                     (double)w->records.count);
}

static void forward_tile(const dataset *d, uint32_t at, uint32_t count) {
    dataset_load(d, at, count, tile.contexts, tile.best_actions);
    linear_forward(tile.logits, tile.contexts, weights, biases(weights), (int)count, FEATURES, ACTIONS);
}

// The n-th action that a unit draws is a function of (seed, unit, n) and the policy: neither the chunk a record stands
// in nor the records before it matter. 24 random bits make u, uniform on [0, 1).
static int draw_action(uint64_t seed, uint64_t unit, uint32_t n, const float *probabilities) {
    rng r = rng_start(seed, unit);
    r.counter = n;
    double u = (double)(rng_next(&r) >> 40) * 0x1p-24, sum = 0;
    int action = 0;
    while (action < ACTIONS - 1 && !(u < (sum += probabilities[action]))) action++;
    return action;
}

typedef struct {
    uint64_t plays, rewards, steps;
} score;

// Plays `count` records once and takes one step on the mean of (reward - baseline) * d log p(action). The baseline is
// the mean reward of the plays before: it lowers the variance and, being independent of these draws, adds no bias.
static void play_batch(const work *w, uint32_t at, uint32_t count, uint32_t n, float rate, score *total) {
    float baseline = total->plays == 0 ? 0 : (float)((double)total->rewards / (double)total->plays);
    float scale = 1 / (float)count;
    for (int i = 0; i < WEIGHTS; i++) gradient[i] = 0;
    for (uint32_t end = at + count; at < end; at += TILE) {
        uint32_t B = end - at < TILE ? end - at : TILE;
        forward_tile(&w->records, at, B);
        softmax_forward(tile.probabilities, tile.logits, (int)B, ACTIONS);
        for (uint32_t b = 0; b < B; b++) {
            const float *p = tile.probabilities + b * ACTIONS;
            int action = draw_action(w->units.seed, w->units.unit_start + at + b, n, p);
            bool rewarded = action == tile.best_actions[b];
            float advantage = (rewarded ? 1 : 0) - baseline;
            for (int i = 0; i < ACTIONS; i++)
                tile.dlogits[b * ACTIONS + i] = (p[i] - (i == action ? 1 : 0)) * advantage * scale;
            total->rewards += rewarded;
        }
        linear_backward(NULL, gradient, biases(gradient), tile.dlogits, tile.contexts, weights, (int)B, FEATURES,
                        ACTIONS);
    }
    for (int i = 0; i < WEIGHTS; i++) weights[i] -= rate * gradient[i];
    total->plays += count;
    total->steps += 1;
}

static void write_reward(json_writer *w, uint64_t rewards, uint64_t plays) {
    json_key(w, "reward");
    json_number(w, (double)rewards / (double)plays);
}

// Each batch is played localEpochs times before the next, so that progress counts finished records.
static score play(const work *w, const weei_settings *settings) {
    score total = {0};
    uint32_t count = w->records.count, interval = count / MOST_REPORTS + 1, next_report = interval;
    for (uint32_t at = 0, batch; at < count; at += batch) {
        batch = count - at < settings->batch_size ? count - at : settings->batch_size;
        for (uint32_t n = 0; n < settings->local_epochs; n++)
            play_batch(w, at, batch, n, (float)settings->learning_rate, &total);
        uint32_t finished = at + batch;
        if (finished < next_report && finished < count) continue;
        next_report = finished + interval;
        write_reward(weei_begin_progress(finished, count, total.steps), total.rewards, total.plays);
        weei_send_progress();
    }
    return total;
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up_weights(void) {
    weei_free(address_of(weights), WEIGHT_BYTES);
    weights = NULL;
    return weei_fail("training diverged: a weight is not finite; lower settings.learningRate");
}

WEEI_OPERATION(train) {
    weei_settings settings = {.learning_rate = DEFAULT_LEARNING_RATE};
    work w;
    uint64_t round;
    if (!read_work(request, &w) || !weei_read_settings(request, &settings)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;
    score total = play(&w, &settings);
    if (!all_finite(weights)) return give_up_weights();

    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, WEIGHT_BYTES);
    json_key(result, "metrics");
    json_open(result, '{');
    write_reward(result, total.rewards, total.plays);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, total.plays);
    json_key(result, "uniqueExamples");
    json_integer(result, w.records.count);
    json_key(result, "optimizerSteps");
    json_integer(result, total.steps);
    json_close(result, '}');
    return true;
}

// The policy's likeliest action for each record: nothing is drawn.
WEEI_OPERATION(evaluate) {
    work w;
    uint64_t rewards = 0;
    if (!read_work(request, &w)) return false;
    for (uint32_t at = 0; at < w.records.count; at += TILE) {
        uint32_t left = w.records.count - at, B = left < TILE ? left : TILE;
        forward_tile(&w.records, at, B);
        for (uint32_t b = 0; b < B; b++)
            rewards += largest(tile.logits + b * ACTIONS, ACTIONS) == tile.best_actions[b];
    }
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_reward(result, rewards, w.records.count);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, w.records.count);
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
