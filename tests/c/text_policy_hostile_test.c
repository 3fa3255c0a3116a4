// The operations of the module `text_policy` on changed configurations and requests, under the sanitizers: one JSON
// object each time, never an access outside what was given.
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../reference_models/lib/config.h"
#include "../../reference_models/lib/rng.h"
#include "../../reference_models/transformer/network.h"
#include "check.h"
#include "native.h"

static const sizes SMALL = {.vocabulary = 14, .context = 8, .layers = 1, .heads = 1, .width = 4, .hidden = 4};
static const char TEXTS[] = "0123456789+=12<e>";  // tokens 0 to 9, +, =, 12 (merged), <e> (special)
enum { VALUES_AT = 56, VALUES = 21, VOCABULARY_AT = VALUES_AT + 8 * VALUES, MOST_BYTES = 1024 };

typedef struct {
    _Alignas(16) uint8_t bytes[MOST_BYTES];
    uint32_t length;
} block;

static block configuration;

static void append(block *to, const void *content, size_t bytes) {
    CHECK(to->length + bytes <= MOST_BYTES, "%zu bytes", bytes);
    memcpy(to->bytes + to->length, content, bytes);
    to->length += (uint32_t)bytes;
}

static void make_configuration(void) {
    enum { TOKENS = 14, WORDS = 4 + 2 * TOKENS + 3 + 1 };
    uint32_t words[WORDS] = {2, TOKENS, 1, 1}, at = 4 * WORDS;
    for (uint32_t i = 0; i < TOKENS; i++) {
        uint32_t bytes = i < 12 ? 1 : i == 12 ? 2 : 3;
        words[4 + 2 * i] = at;
        words[5 + 2 * i] = bytes;
        at += bytes;
    }
    const uint32_t merged[] = {1, 2, 12, 13};
    memcpy(words + 4 + 2 * TOKENS, merged, sizeof merged);
    const double values[VALUES] = {14,  8,     1,    1,  4,  4, 0.01, 0.01, 1, 1, 0.9,
                                   0.999, 1e-8, 13, -1, 3, 0.1,  0.2,  9, 1, 4};
    const uint32_t vocabulary = sizeof words + sizeof TEXTS - 1;
    const uint32_t head[] = {0x47464357, 1,      VOCABULARY_AT + vocabulary, CONFIG_TEXT_POLICY, 48, 2,
                             VALUES_AT,  VALUES, VOCABULARY_AT,              vocabulary,         0,  0};
    append(&configuration, head, sizeof head);
    append(&configuration, "{}      ", VALUES_AT - sizeof head);
    append(&configuration, values, sizeof values);
    append(&configuration, words, sizeof words);
    append(&configuration, TEXTS, sizeof TEXTS - 1);
}

static bool is_error(const char *answer) { return strncmp(answer, "{\"error\":\"", 10) == 0; }

static void load(operation *into, const char *slot) {
    static float content[1024];
    uint32_t bytes = 4 * (uint32_t)network_parameters(&SMALL);
    CHECK(bytes <= sizeof content, "%u bytes", bytes);
    network_initialize(&SMALL, content, 1);
    uint32_t address = weei_alloc(bytes);
    memcpy(at_address(address), content, bytes);
    const char *answer = call(into, "{%s\"weights\":{\"pointer\":%u,\"bytes\":%u}}", slot, address, bytes);
    if (is_error(answer)) weei_free(address, bytes);
}

static void load_weights(void) {
    load(weei_loadModel, "");
    load(weei_loadAuxiliary, "\"id\":\"reference\",");
}

static operation *const OPERATIONS[] = {weei_getModelInfo, weei_createInitialWeights, weei_loadModel,
                                        weei_loadAuxiliary, weei_train, weei_evaluate, weei_predict};
enum { OPERATION_COUNT = 7, CHANGED_REQUESTS = 4000 };

static const char REQUEST[] =
    "{\"experience\":{\"seed\":\"7\",\"unitStart\":12,\"unitCount\":5},\"id\":\"reference\","
    "\"input\":{\"text\":\"3+4=\",\"maxTokens\":4,\"temperature\":0.5,\"topK\":3,\"seed\":\"4\",\"stop\":true},"
    "\"settings\":{\"localEpochs\":2,\"batchSize\":3,\"learningRate\":0.05},\"round\":1,\"seed\":\"7\"}";

static void test_every_operation_survives_a_changed_request(void) {
    char changed[sizeof REQUEST];
    uint32_t bytes = sizeof REQUEST - 1;
    int errors = 0;
    rng r = rng_start(2, 0);
    for (int i = 0; i < CHANGED_REQUESTS; i++) {
        memcpy(changed, REQUEST, bytes);
        for (uint32_t n = rng_below(&r, 3); n < 3; n++) {
            // From the document's own characters: more of these texts stay JSON than with random bytes.
            changed[rng_below(&r, bytes)] = REQUEST[rng_below(&r, bytes)];
        }
        if (i % 8 == 0) load_weights();
        uint32_t length = i % 4 == 0 ? rng_below(&r, bytes) : bytes;
        errors += is_error(call_bytes(OPERATIONS[rng_below(&r, OPERATION_COUNT)], changed, length));
    }
    CHECK(errors > CHANGED_REQUESTS / 2 && errors < CHANGED_REQUESTS, "%d errors: too wild or too tame", errors);
}

// In a child, since a module meets one configuration only. Returns whether training was refused.
static bool refuses_configuration(const block *changed) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        native_configuration = at_address(give(changed->bytes, changed->length));
        load_weights();
        for (int i = 0; i < OPERATION_COUNT; i++)
            if (OPERATIONS[i] != weei_loadModel) call(OPERATIONS[i], "%s", REQUEST);
        _exit(is_error(call(weei_train, "%s", REQUEST)) ? 2 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "a child crashed");
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2, "a child failed");
    return WEXITSTATUS(status) == 2;
}

// Sizes that change are memory that is asked for: what is there is used, what is not is a sentence.
static void test_a_changed_configuration_is_refused_or_used(void) {
    rng r = rng_start(4, 0);
    int refused = 0;
    CHECK(!refuses_configuration(&configuration), "the configuration itself");
    for (int i = 0; i < 300; i++) {
        block changed = configuration;
        uint32_t skipped = i % 2 == 0 ? 0 : VALUES_AT, at = skipped + rng_below(&r, changed.length - skipped);
        if (at >= 8 && at < 12) continue;  // the segment's length is the generator's word
        changed.bytes[at] = (uint8_t)rng_below(&r, i % 3 == 0 ? 256 : 8);
        refused += refuses_configuration(&changed);
    }
    CHECK(refused > 40 && refused < 290, "%d of 300 refused", refused);
}

static void test_reports_memory_that_is_not_there(void) {
    load_weights();
    // Fill the heap but for a block the request fits into and what training needs does not.
    uint32_t kept = weei_alloc(1024);
    for (uint32_t bytes = NATIVE_PAGES * PAGE_BYTES; bytes >= 16; bytes /= 2)
        while (weei_alloc(bytes) != 0) continue;
    weei_free(kept, 1024);
    operation *const hungry[] = {weei_train, weei_evaluate, weei_predict, weei_createInitialWeights};
    for (int i = 0; i < 4; i++) {
        const char *answer = call(hungry[i], "%s", REQUEST);
        CHECK(strncmp(answer, "{\"error\":\"out of memory", 23) == 0, "%s", answer);
    }
}

int main(void) {
    make_configuration();
    CHECK(strstr(call(weei_train, "{}"), "This module has no configuration.") != NULL, "without a configuration");
    test_a_changed_configuration_is_refused_or_used();
    native_configuration = configuration.bytes;
    test_every_operation_survives_a_changed_request();
    test_reports_memory_that_is_not_there();
    return 0;
}
