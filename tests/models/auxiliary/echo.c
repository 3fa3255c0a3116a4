// The test model `aux-echo`: each weight and each metric repeats one thing that the host handed over, so that a test
// can tell which round, units, seed and auxiliary weights an update was made from. What it does is in __init__.py.
#include "functions.h"
#include "weei.h"

// What a weight grows by in a training; the metrics have the same values, but for the round.
enum { ROUND, UNIT_START, UNIT_COUNT, SEED, REWARD, START, OLD, WEIGHTS };

enum {
    WEIGHT_BYTES = WEIGHTS * sizeof(float),
    REWARD_BYTES = 8,
    MOST_UNITS = 1000,
    SEED_MODULUS = 65521,  // a prime: a seed of 64 bits does not fit a float
    BATCH_FOR_HALF = 7,    // settings.batchSize that leaves units unfinished
    BATCH_FOR_NONE = 9,
};

typedef struct {
    const char *id;
    uint32_t bytes;
    float *values;  // the host's buffer since loadAuxiliary
} slot;

static slot slots[] = {{"reward", REWARD_BYTES, NULL}, {"start", WEIGHT_BYTES, NULL}, {"old", WEIGHT_BYTES, NULL}};
enum { SLOTS = sizeof(slots) / sizeof(slots[0]) };
static int loaded_slots;
static float *weights;  // (WEIGHTS), the host's buffer since loadModel; NULL = none
static float initial_weights[WEIGHTS];

WEEI_OPERATION(getModelInfo) {
    (void)request;
    json_value(result,
               "{\"id\":\"aux-echo\",\"version\":\"1.0.0\",\"name\":\"Echo of auxiliary weights\",\"abiVersion\":1,"
               "\"weightFormat\":\"float32-le\",\"maxWorkers\":3,\"dataFormats\":[],"
               "\"metrics\":[{\"id\":\"weight\",\"label\":\"First weight\",\"direction\":\"maximize\"},"
               "{\"id\":\"unitStart\",\"label\":\"First unit\",\"direction\":\"maximize\"},"
               "{\"id\":\"unitCount\",\"label\":\"Units\",\"direction\":\"maximize\"},"
               "{\"id\":\"seed\",\"label\":\"Seed\",\"direction\":\"maximize\"},"
               "{\"id\":\"reward\",\"label\":\"Reward weights\",\"direction\":\"maximize\"},"
               "{\"id\":\"start\",\"label\":\"Weights at the start\",\"direction\":\"maximize\"},"
               "{\"id\":\"old\",\"label\":\"Weights two rounds ago\",\"direction\":\"maximize\"}],"
               "\"capabilities\":{\"evaluation\":true},"
               "\"workSource\":{\"kind\":\"experience\",\"inputs\":\"none\","
               "\"unit\":{\"id\":\"step\",\"label\":\"Steps\"},"
               "\"unitsPerAssignment\":{\"default\":6,\"minimum\":1,\"maximum\":1000},\"evaluationUnits\":4},"
               "\"auxiliaryWeights\":[{\"id\":\"reward\",\"role\":\"reward-model\",\"bytes\":8,"
               "\"sha256\":\"" REWARD_SHA256 "\"},"
               "{\"id\":\"start\",\"role\":\"reference-policy\",\"bytes\":28,\"source\":{\"kind\":\"initial\"}},"
               "{\"id\":\"old\",\"role\":\"opponent\",\"bytes\":28,"
               "\"source\":{\"kind\":\"checkpoint\",\"roundsAgo\":2}}]}");
    return true;
}
_Static_assert(REWARD_BYTES == 8 && WEIGHT_BYTES == 28 && MOST_UNITS == 1000, "ModelInfo states these");

// Byte i of the seed is weight i, as a fraction.
WEEI_OPERATION(createInitialWeights) {
    uint64_t seed;
    if (!weei_seed(request, &seed)) return false;
    for (int i = 0; i < WEIGHTS; i++) initial_weights[i] = (float)(seed >> 8 * i & 255) / 256;
    json_open(result, '{');
    json_key(result, "pointer");
    json_integer(result, address_of(initial_weights));
    json_key(result, "bytes");
    json_integer(result, WEIGHT_BYTES);
    json_close(result, '}');
    return true;
}

// The finite values of the request's `weights`; NULL with the error set.
static float *read_values(json request, uint32_t bytes) {
    weei_buffer buffer;
    if (!weei_read_buffer(request, "weights", &buffer)) return NULL;
    float *values = at_address(buffer.address);
    bool usable = buffer.bytes == bytes ||
                  weei_fail("weights has %g bytes, allowed: %g", (double)buffer.bytes, (double)bytes);
    for (uint32_t i = 0; usable && i < bytes / sizeof(float); i++)
        usable = is_finite(values[i]) || weei_fail("weights holds a value that is not finite");
    return usable ? values : NULL;
}

static bool answer_nothing(json_writer *result) {
    json_open(result, '{');
    json_close(result, '}');
    return true;
}

WEEI_OPERATION(loadModel) {
    float *values = read_values(request, WEIGHT_BYTES);
    if (values == NULL) return false;
    while (loaded_slots > 0) {
        slot *last = &slots[--loaded_slots];
        weei_free(address_of(last->values), last->bytes);
    }
    if (weights != NULL && weights != values) weei_free(address_of(weights), WEIGHT_BYTES);
    weights = values;
    return answer_nothing(result);
}

WEEI_OPERATION(loadAuxiliary) {
    json id;
    if (weights == NULL) return weei_fail("no weights are loaded: call loadModel first");
    if (loaded_slots == SLOTS) return weei_fail("all auxiliary weights are loaded already");
    slot *next = &slots[loaded_slots];
    if (!json_member(request, "id", &id) || !json_is_text(id, next->id))
        return weei_fail("id is not %s, the auxiliary weights to load next", next->id);
    next->values = read_values(request, next->bytes);
    if (next->values == NULL) return false;
    loaded_slots++;
    return answer_nothing(result);
}

static bool everything_is_loaded(void) {
    if (weights == NULL) return weei_fail("no weights are loaded: call loadModel first");
    return loaded_slots == SLOTS ||
           weei_fail("the auxiliary weights %s are not loaded: call loadAuxiliary first", slots[loaded_slots].id);
}

// All that train and evaluate have in common: fills `echo` but for the round.
static bool read_work(json request, double echo[WEIGHTS], uint32_t *batch_size) {
    weei_experience units;
    weei_settings settings;
    if (!everything_is_loaded() || !weei_read_experience(request, MOST_UNITS, &units)) return false;
    if (!weei_read_settings(request, &settings)) return false;
    *batch_size = settings.batch_size;
    echo[UNIT_START] = (double)units.unit_start;
    echo[UNIT_COUNT] = units.unit_count;
    echo[SEED] = (double)(units.seed % SEED_MODULUS);
    for (int i = 0; i < SLOTS; i++) echo[REWARD + i] = slots[i].values[0];
    return true;
}

static void write_metrics(json_writer *w, const double echo[WEIGHTS]) {
    static const char *const NAMES[WEIGHTS] = {"", "unitStart", "unitCount", "seed", "reward", "start", "old"};
    json_key(w, "weight");
    json_number(w, weights[0]);
    for (int i = UNIT_START; i < WEIGHTS; i++) {
        json_key(w, NAMES[i]);
        json_number(w, echo[i]);
    }
}

// The metrics are those of the weights before the training.
WEEI_OPERATION(train) {
    double echo[WEIGHTS];
    uint32_t batch_size;
    uint64_t round;
    if (!read_work(request, echo, &batch_size)) return false;
    if (!weei_integer(request, "round", 1, 1u << 31, &round)) return false;
    echo[ROUND] = (double)round;
    uint64_t units = (uint64_t)echo[UNIT_COUNT], finished = units;
    if (batch_size == BATCH_FOR_HALF) finished = units / 2;
    if (batch_size == BATCH_FOR_NONE) finished = 0;

    write_metrics(weei_begin_progress(finished, units, finished), echo);
    weei_send_progress();
    json_open(result, '{');
    weei_write_buffer(result, "weights", weights, WEIGHT_BYTES);
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, echo);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, finished);
    json_key(result, "uniqueExamples");
    json_integer(result, finished);
    json_key(result, "optimizerSteps");
    json_integer(result, finished);
    json_close(result, '}');
    for (int i = 0; i < WEIGHTS; i++) weights[i] = (float)(weights[i] + echo[i]);
    return true;
}

WEEI_OPERATION(evaluate) {
    double echo[WEIGHTS];
    uint32_t batch_size;
    if (!read_work(request, echo, &batch_size)) return false;
    json_open(result, '{');
    json_key(result, "metrics");
    json_open(result, '{');
    write_metrics(result, echo);
    json_close(result, '}');
    json_key(result, "examplesProcessed");
    json_integer(result, (uint64_t)echo[UNIT_COUNT]);
    json_close(result, '}');
    return true;
}
