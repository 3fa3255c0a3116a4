// The model `cartpole-reinforce`: balances a pole on a cart. The operations of Weei WASM ABI 1.
#include "../lib/functions.h"
#include "../lib/nn.h"
#include "../lib/weei.h"
#include "episode.h"
#include "reinforce.h"

#define DEFAULT_LEARNING_RATE 0.05

enum { MOST_UNITS = 4096 };

// Everything of a fixed size is static; only the episodes of a batch are allocated.
static parameters *weights;  // the host's buffer since loadModel; NULL = none
static parameters initial_weights;
static learner learning;
static episode played;

WEEI_OPERATION(getModelInfo) {
    (void)request;
    json_value(result,
               "{\"id\":\"cartpole-reinforce\",\"version\":\"1.0.0\",\"name\":\"CartPole policy (REINFORCE)\","
               "\"abiVersion\":1,\"weightFormat\":\"float32-le\",\"maxWorkers\":4,\"dataFormats\":[],"
               "\"metrics\":[{\"id\":\"episodeReturn\",\"label\":\"Episode return\",\"direction\":\"maximize\"}],"
               "\"capabilities\":{\"evaluation\":true,\"inference\":true},"
               "\"workSource\":{\"kind\":\"experience\",\"inputs\":\"none\","
               "\"unit\":{\"id\":\"episode\",\"label\":\"Episodes\"},"
               "\"unitsPerAssignment\":{\"default\":32,\"minimum\":1,\"maximum\":4096},\"evaluationUnits\":32},"
               "\"auxiliaryWeights\":[],"
               "\"inference\":{\"view\":\"cartpole\",\"inputs\":[{\"id\":\"seed\",\"label\":\"Seed of the start\","
               "\"type\":\"seed\"}],"
               "\"outputs\":[{\"id\":\"return\",\"label\":\"Return\",\"type\":\"integer\"},"
               "{\"id\":\"steps\",\"label\":\"Position, angle and action of each step\",\"type\":\"rows\"}]}}");
    return true;
}
_Static_assert(MOST_UNITS == 4096, "ModelInfo states it");

WEEI_OPERATION(createInitialWeights) {
    uint64_t seed;
    if (!weei_seed(request, &seed)) return false;
    policy_initialize(&initial_weights, seed);
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(&initial_weights));
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
    parameters *loaded = at_address(buffer.address);
    if (!all_finite((float *)loaded)) return weei_fail("weights holds a value that is not finite");
    if (weights != NULL && weights != loaded) weei_free(address_of(weights), WEIGHT_BYTES);
    weights = loaded;
    learner_start(&learning);
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

static bool model_is_loaded(void) {
    return weights != NULL || weei_fail("no weights are loaded: call loadModel first");
}

// A diverged block is of no use to anyone; giving it up makes the next call say so.
static bool give_up_weights(uint32_t episodes) {
    weei_free(address_of(weights), WEIGHT_BYTES);
    weights = NULL;
    return weei_fail("training diverged after %g episodes: a weight is not finite; lower settings.learningRate",
                     (double)episodes);
}

static void write_metrics(json_writer *w, uint64_t steps, uint32_t episodes) {
    json_key(w, "episodeReturn");
    json_number(w, (double)steps / (double)episodes);
}

typedef struct {
    uint32_t total, played;  // episodes
    uint64_t steps, updates;
} run;

static void report(const run *r) {
    write_metrics(weei_begin_progress(r->played, r->total, r->updates), r->steps, r->played);
    weei_send_progress();
}

// Plays a batch with the policy as it stands, then updates the policy on it once for each local epoch.
static bool train_batch(run *r, episode *batch, uint32_t count, const weei_experience *work,
                        const weei_settings *settings) {
    policy p = policy_of(weights);
    for (uint32_t i = 0; i < count; i++) {
        episode_play(&batch[i], &p, work->seed, work->unit_start + r->played + i);
        r->steps += batch[i].steps;
    }
    r->played += count;
    for (uint32_t epoch = 0; epoch < settings->local_epochs; epoch++) {
        learner_update(&learning, weights, batch, count, (float)settings->learning_rate);
        if (!all_finite((float *)weights)) return give_up_weights(r->played);
        r->updates += 1;
        report(r);
    }
    return true;
}

static bool train(episode *batch, const weei_experience *work, const weei_settings *settings, json_writer *result) {
    run r = {.total = work->unit_count};
    while (r.played < r.total) {
        uint32_t left = r.total - r.played, count = left < settings->batch_size ? left : settings->batch_size;
        if (!train_batch(&r, batch, count, work, settings)) return false;
    }

    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, WEIGHT_BYTES);
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, r.steps, r.played);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, r.played);
    json_key(result, "uniqueExamples");
    json_integer(result, r.played);
    json_key(result, "optimizerSteps");
    json_integer(result, r.updates);
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(train) {
    weei_settings settings = {.learning_rate = DEFAULT_LEARNING_RATE};
    weei_experience work;
    uint64_t round;
    if (!model_is_loaded() || !weei_read_experience(request, MOST_UNITS, &work)) return false;
    if (!weei_read_settings(request, &settings)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;

    uint32_t count = work.unit_count < settings.batch_size ? work.unit_count : settings.batch_size;
    uint32_t bytes = count * (uint32_t)sizeof(episode), batch = weei_alloc(bytes);
    if (batch == 0) return weei_fail("out of memory: a batch of %g episodes needs %g bytes", (double)count, (double)bytes);
    bool done = train(at_address(batch), &work, &settings, result);
    weei_free(batch, bytes);
    return done;
}

WEEI_OPERATION(evaluate) {
    weei_experience work;
    if (!model_is_loaded() || !weei_read_experience(request, MOST_UNITS, &work)) return false;
    policy p = policy_of(weights);
    uint64_t steps = 0;
    for (uint32_t i = 0; i < work.unit_count; i++) {
        episode_play_greedily(&played, &p, work.seed, work.unit_start + i);
        steps += played.steps;
    }
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, steps, work.unit_count);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, work.unit_count);
    json_close(result, '}');
    return true;
}

// To four decimals, enough for a picture.
static void write_rounded(json_writer *w, float value) {
    double scaled = value * 10000.0;
    json_number(w, (double)(int32_t)(scaled + (scaled < 0 ? -0.5 : 0.5)) / 10000.0);
}

// The first evaluation episode of this seed.
WEEI_OPERATION(predict) {
    json input;
    uint64_t seed;
    if (!model_is_loaded() || !weei_object(request, "input", &input)) return false;
    if (!weei_seed_at(input, "input.seed", &seed)) return false;
    policy p = policy_of(weights);
    episode_play_greedily(&played, &p, seed, 0);
    json_open(result, '{');
    json_key(result, "output");
    json_open(result, '{');
    json_key(result, "return");
    json_integer(result, played.steps);
    json_key(result, "steps");
    json_open(result, '[');
    for (uint32_t t = 0; t < played.steps; t++) {
        json_open(result, '[');
        write_rounded(result, played.observations[t][0]);
        write_rounded(result, played.observations[t][2]);
        json_integer(result, played.actions[t]);
        json_close(result, ']');
    }
    json_close(result, ']');
    json_close(result, '}');
    json_close(result, '}');
    return true;
}
