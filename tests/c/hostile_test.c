// Requests and files that no honest host sends: always one JSON object back, never an access out of bounds.
#include <string.h>

#include "../../reference_models/digits/network.h"
#include "../../reference_models/lib/rng.h"
#include "check.h"
#include "native.h"

enum { RECORDS = 6, FILE_BYTES = HEADER_BYTES + RECORDS * RECORD_BYTES };
static uint8_t file[FILE_BYTES];

static void make_file(void) {
    const uint32_t header[4] = {0x38554744, 1, RECORDS, RECORD_BYTES};  // "DGU8", little-endian
    memcpy(file, header, sizeof header);
    rng r = rng_start(1, 0);
    for (int i = HEADER_BYTES; i < FILE_BYTES; i++) file[i] = (uint8_t)rng_below(&r, 10);
}

static bool is_error(const char *answer) { return strncmp(answer, "{\"error\":\"", 10) == 0; }

static void load_weights(void) {
    static float block[WEIGHTS];
    network_initialize(block, 1);
    uint32_t address = weei_alloc(WEIGHT_BYTES);
    memcpy(at_address(address), block, WEIGHT_BYTES);
    const char *answer = call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%d}}", address, WEIGHT_BYTES);
    CHECK(strcmp(answer, "{}") == 0, "%s", answer);
}

static int train_request(char *text, size_t size, uint32_t data, uint32_t data_bytes) {
    return snprintf(text, size,
                    "{\"data\":{\"pointer\":%u,\"bytes\":%u,\"format\":\"digits-u8-v1\",\"recordStart\":2,"
                    "\"recordCount\":4},\"settings\":{\"localEpochs\":2,\"batchSize\":3,\"learningRate\":0.05},"
                    "\"round\":1,\"seed\":\"7\"}",
                    data, data_bytes);
}

static void test_every_operation_survives_a_changed_request(void) {
    operation *all[] = {weei_getModelInfo, weei_createInitialWeights, weei_loadModel, weei_train, weei_evaluate,
                        weei_inspectData, weei_predict};
    char request[512], changed[512];
    uint32_t data = give(file, FILE_BYTES);
    int bytes = train_request(request, sizeof request, data, FILE_BYTES), errors = 0;
    rng r = rng_start(2, 0);
    for (int i = 0; i < 6000; i++) {
        memcpy(changed, request, (size_t)bytes);
        for (uint32_t n = rng_below(&r, 3); n < 3; n++) {
            // From the document's own characters: more of these texts stay JSON than with random bytes.
            changed[rng_below(&r, (uint32_t)bytes)] = request[rng_below(&r, (uint32_t)bytes)];
        }
        uint32_t length = i % 4 == 0 ? rng_below(&r, (uint32_t)bytes) : (uint32_t)bytes;
        load_weights();
        errors += is_error(call_bytes(all[rng_below(&r, 7)], changed, length));
    }
    take_back(data, FILE_BYTES);
    CHECK(errors > 3000 && errors < 6000, "%d errors of 6000: the changes are too wild or too tame", errors);
}

static void test_a_changed_file_is_refused_or_trained_on(void) {
    uint8_t changed[FILE_BYTES];
    char request[512];
    rng r = rng_start(3, 0);
    int errors = 0;
    for (int i = 0; i < 3000; i++) {
        memcpy(changed, file, FILE_BYTES);
        for (uint32_t n = rng_below(&r, 3); n < 3; n++) {
            uint32_t at = rng_below(&r, i % 2 == 0 ? HEADER_BYTES : FILE_BYTES);
            changed[at] = (uint8_t)rng_below(&r, i % 3 == 0 ? 256 : 18);
        }
        uint32_t bytes = FILE_BYTES - rng_below(&r, 3);
        uint32_t data = give(changed, bytes);
        train_request(request, sizeof request, data, bytes);
        load_weights();
        errors += is_error(call(weei_train, "%s", request));
        take_back(data, bytes);
    }
    CHECK(errors > 1500 && errors < 3000, "%d errors of 3000", errors);
}

static void test_reports_memory_that_is_not_there(void) {
    uint32_t data = give(file, FILE_BYTES), most = NATIVE_PAGES * PAGE_BYTES;
    char request[512];
    train_request(request, sizeof request, data, FILE_BYTES);
    load_weights();
    // Fill the heap but for a block the request fits into and the order of the records does not.
    uint32_t kept = weei_alloc(512);
    for (uint32_t bytes = most; bytes >= 16; bytes /= 2)
        while (weei_alloc(bytes) != 0) continue;
    weei_free(kept, 512);
    uint32_t length = (uint32_t)strlen(request), text = weei_alloc(512);
    CHECK(text == kept, "%u", text);
    memcpy(at_address(text), request, length);
    const char *answer = at_address(weei_train(text, length));
    CHECK(strncmp(answer, "{\"error\":\"out of memory", 23) == 0, "%.*s", (int)weei_result_length(), answer);
}

int main(void) {
    make_file();
    test_every_operation_survives_a_changed_request();
    test_a_changed_file_is_refused_or_trained_on();
    test_reports_memory_that_is_not_there();
    return 0;
}
