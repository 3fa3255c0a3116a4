// Requests that no honest host sends to the Connect Four model: always one JSON object back, never an access out of
// bounds, and no endless work.
#include <string.h>

#include "../../reference_models/connect4/network.h"
#include "../../reference_models/lib/rng.h"
#include "check.h"
#include "native.h"

static const char *const REQUEST =
    "{\"experience\":{\"seed\":\"71\",\"unitStart\":40,\"unitCount\":2},\"input\":{\"moves\":\"3324\"},"
    "\"settings\":{\"localEpochs\":1,\"batchSize\":3,\"learningRate\":0.05},\"round\":1,\"seed\":\"9\"}";

static bool is_error(const char *answer) { return strncmp(answer, "{\"error\":\"", 10) == 0; }

static const char *load(operation *run, const parameters *content) {
    uint32_t address = weei_alloc(WEIGHT_BYTES);
    CHECK(address != 0, "the module does not give its buffers back");
    memcpy(at_address(address), content, WEIGHT_BYTES);
    const char *answer =
        call(run, "{\"id\":\"opponent\",\"weights\":{\"pointer\":%u,\"bytes\":%d}}", address, WEIGHT_BYTES);
    if (is_error(answer)) weei_free(address, WEIGHT_BYTES);
    return answer;
}

static void load_both(void) {
    static parameters content;
    network_initialize(&content, 1);
    CHECK(!is_error(load(weei_loadModel, &content)), "loadModel");
    CHECK(!is_error(load(weei_loadAuxiliary, &content)), "loadAuxiliary");
}

static void test_every_operation_survives_a_changed_request(void) {
    operation *all[] = {weei_getModelInfo, weei_createInitialWeights, weei_loadModel, weei_loadAuxiliary,
                        weei_train, weei_evaluate, weei_predict};
    char changed[512];
    uint32_t bytes = (uint32_t)strlen(REQUEST);
    int errors = 0;
    rng r = rng_start(2, 0);
    for (int i = 0; i < 2500; i++) {
        memcpy(changed, REQUEST, bytes);
        for (uint32_t n = rng_below(&r, 3); n < 3; n++) {
            // From the document's own characters: more of these texts stay JSON than with random bytes.
            changed[rng_below(&r, bytes)] = REQUEST[rng_below(&r, bytes)];
        }
        load_both();
        errors += is_error(call_bytes(all[rng_below(&r, 7)], changed, i % 4 == 0 ? rng_below(&r, bytes) : bytes));
    }
    CHECK(errors > 1200 && errors < 2500, "%d errors of 2500: the changes are too wild or too tame", errors);
}

// Any bits may come as weights: they are refused, or everything that uses them answers.
static void test_extreme_weights_are_answered(void) {
    static parameters content;
    int refused = 0;
    rng r = rng_start(3, 0);
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < WEIGHTS; k++) {
            uint32_t bits = (uint32_t)rng_next(&r);
            float value;
            memcpy(&value, &bits, 4);
            // Every other block is pulled within the limits.
            bool keep = i % 2 == 0 || (value > -1e6f && value < 1e6f);
            ((float *)&content)[k] = keep ? value : (float)(bits % 2000000) - 1e6f;
        }
        load_both();
        refused += is_error(load(weei_loadModel, &content));
        load(weei_loadAuxiliary, &content);
        CHECK(!is_error(call(weei_evaluate, "%s", REQUEST)), "evaluate");
        CHECK(!is_error(call(weei_predict, "%s", REQUEST)), "predict");
        call(weei_train, "%s", REQUEST);
    }
    CHECK(refused == 20, "%d of 40 refused", refused);
}

static void test_reports_memory_that_is_not_there(void) {
    load_both();
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
