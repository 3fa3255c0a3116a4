// Requests that no honest host sends to the CartPole model: always one JSON object back, never an access out of
// bounds, and no endless work.
#include <string.h>

#include "../../reference_models/cartpole/policy.h"
#include "../../reference_models/lib/rng.h"
#include "check.h"
#include "native.h"

static const char *const REQUEST =
    "{\"experience\":{\"seed\":\"71\",\"unitStart\":40,\"unitCount\":7},\"input\":{\"seed\":\"5\"},"
    "\"settings\":{\"localEpochs\":2,\"batchSize\":3,\"learningRate\":0.05},\"round\":1,\"seed\":\"9\"}";

static bool is_error(const char *answer) { return strncmp(answer, "{\"error\":\"", 10) == 0; }

static const char *load(const parameters *content) {
    uint32_t address = weei_alloc(WEIGHT_BYTES);
    memcpy(at_address(address), content, WEIGHT_BYTES);
    return call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%d}}", address, WEIGHT_BYTES);
}

static void load_weights(void) {
    parameters content;
    policy_initialize(&content, 1);
    const char *answer = load(&content);
    CHECK(strcmp(answer, "{}") == 0, "%s", answer);
}

static void test_every_operation_survives_a_changed_request(void) {
    operation *all[] = {weei_getModelInfo, weei_createInitialWeights, weei_loadModel,
                        weei_train, weei_evaluate, weei_predict};
    char changed[512];
    uint32_t bytes = (uint32_t)strlen(REQUEST);
    int errors = 0;
    rng r = rng_start(2, 0);
    for (int i = 0; i < 6000; i++) {
        memcpy(changed, REQUEST, bytes);
        for (uint32_t n = rng_below(&r, 3); n < 3; n++) {
            // From the document's own characters: more of these texts stay JSON than with random bytes.
            changed[rng_below(&r, bytes)] = REQUEST[rng_below(&r, bytes)];
        }
        load_weights();
        errors += is_error(call_bytes(all[rng_below(&r, 6)], changed, i % 4 == 0 ? rng_below(&r, bytes) : bytes));
    }
    CHECK(errors > 3000 && errors < 6000, "%d errors of 6000: the changes are too wild or too tame", errors);
}

// Finite weights of any size may load; what they do is an update, an evaluation or a sentence.
static void test_extreme_weights_are_answered(void) {
    int errors = 0;
    rng r = rng_start(3, 0);
    for (int i = 0; i < 300; i++) {
        parameters content;
        for (int k = 0; k < WEIGHTS; k++) {
            uint32_t bits = (uint32_t)rng_next(&r);
            memcpy((float *)&content + k, &bits, 4);
        }
        if (is_error(load(&content))) {
            errors++;
            load_weights();
        }
        CHECK(!is_error(call(weei_evaluate, "%s", REQUEST)), "evaluate");
        CHECK(!is_error(call(weei_predict, "%s", REQUEST)), "predict");
        errors += is_error(call(weei_train, "%s", REQUEST));
    }
    CHECK(errors > 30 && errors < 300, "%d errors of 300", errors);
}

static void test_reports_memory_that_is_not_there(void) {
    load_weights();
    uint32_t kept = weei_alloc(512);
    for (uint32_t bytes = NATIVE_PAGES * PAGE_BYTES; bytes >= 16; bytes /= 2)
        while (weei_alloc(bytes) != 0) continue;
    weei_free(kept, 512);
    uint32_t length = (uint32_t)strlen(REQUEST), text = weei_alloc(512);
    CHECK(text == kept, "%u", text);
    memcpy(at_address(text), REQUEST, length);
    const char *answer = at_address(weei_train(text, length));
    CHECK(strncmp(answer, "{\"error\":\"out of memory", 23) == 0, "%.*s", (int)weei_result_length(), answer);
}

int main(void) {
    test_every_operation_survives_a_changed_request();
    test_extreme_weights_are_answered();
    test_reports_memory_that_is_not_there();
    return 0;
}
