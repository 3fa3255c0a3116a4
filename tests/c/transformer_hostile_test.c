// The operations of the module `transformer` on changed configurations, files and requests, under the sanitizers: one
// JSON object each time, never an access outside what was given.
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../reference_models/lib/config.h"
#include "../../reference_models/lib/rng.h"
#include "../../reference_models/transformer/network.h"
#include "check.h"
#include "native.h"

static const sizes SMALL = {.vocabulary = 6, .context = 4, .layers = 1, .heads = 1, .width = 4, .hidden = 4};
static const char TEXTS[] = "abc\xc3\xa9" "ab<e>";  // tokens a, b, c, é, ab (merged), <e> (special)
enum { VALUES_AT = 56, VALUES = 15, VOCABULARY_AT = VALUES_AT + 8 * VALUES, MOST_BYTES = 512, RECORDS = 3 };

typedef struct {
    _Alignas(16) uint8_t bytes[MOST_BYTES];
    uint32_t length;
} block;

static block configuration, chunk;

static void append(block *to, const void *content, size_t bytes) {
    CHECK(to->length + bytes <= MOST_BYTES, "%zu bytes", bytes);
    memcpy(to->bytes + to->length, content, bytes);
    to->length += (uint32_t)bytes;
}

static void make_configuration(void) {
    const uint32_t texts = 4 * (4 + 2 * 6 + 3 + 1);
    const uint32_t words[] = {2,        6, 1,         1, texts,     1, texts + 1, 1, texts + 2, 1,
                              texts + 3, 2, texts + 5, 2, texts + 7, 3, 0,         1, 4,         5};
    const double values[VALUES] = {6, 4, 1, 1, 4, 4, 0.01, 0.01, 1, 1, 0.9, 0.999, 1e-8, 5, -1};
    const uint32_t vocabulary = sizeof words + sizeof TEXTS - 1;
    const uint32_t head[] = {0x47464357, 1,      VOCABULARY_AT + vocabulary, CONFIG_TRANSFORMER, 48, 2,
                             VALUES_AT,  VALUES, VOCABULARY_AT,              vocabulary,         0,  0};
    append(&configuration, head, sizeof head);
    append(&configuration, "{}      ", VALUES_AT - sizeof head);
    append(&configuration, values, sizeof values);
    append(&configuration, words, sizeof words);
    append(&configuration, TEXTS, sizeof TEXTS - 1);
}

static void make_chunk(void) {
    const uint32_t head[] = {0x4b4f5457, 1, RECORDS, 6};
    const uint16_t records[] = {0, 0, 5, 0, 2, 0, 2, 1, 1, 0, 4, 2}, tokens[] = {0, 1, 2, 3, 4, 5};
    append(&chunk, head, sizeof head);
    append(&chunk, records, sizeof records);
    append(&chunk, tokens, sizeof tokens);
}

static bool is_error(const char *answer) { return strncmp(answer, "{\"error\":\"", 10) == 0; }

static void load_weights(void) {
    static float content[512];
    uint32_t bytes = 4 * (uint32_t)network_parameters(&SMALL);
    CHECK(bytes <= sizeof content, "%u bytes", bytes);
    network_initialize(&SMALL, content, 1);
    uint32_t address = weei_alloc(bytes);
    memcpy(at_address(address), content, bytes);
    const char *answer = call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%u}}", address, bytes);
    if (is_error(answer)) weei_free(address, bytes);
}

static operation *const OPERATIONS[] = {weei_getModelInfo, weei_createInitialWeights, weei_loadModel, weei_train,
                                        weei_evaluate, weei_inspectData, weei_predict};
enum { OPERATION_COUNT = 7 };

static int write_request(char *text, size_t size, uint32_t data, uint32_t bytes) {
    return snprintf(text, size,
                    "{\"data\":{\"pointer\":%u,\"bytes\":%u,\"format\":\"weei-tokens\",\"recordStart\":0,"
                    "\"recordCount\":3},\"input\":{\"text\":\"ab\\u00e9<e>c\",\"maxTokens\":4,\"temperature\":0.5,"
                    "\"topK\":3,\"seed\":\"4\",\"stop\":true},\"settings\":{\"localEpochs\":2,\"batchSize\":2,"
                    "\"learningRate\":0.05},\"round\":1,\"seed\":\"7\"}",
                    data, bytes);
}

static void test_every_operation_survives_a_changed_request(void) {
    char request[512], changed[512];
    uint32_t data = give(chunk.bytes, chunk.length);
    uint32_t bytes = (uint32_t)write_request(request, sizeof request, data, chunk.length);
    int errors = 0;
    rng r = rng_start(2, 0);
    for (int i = 0; i < 4000; i++) {
        memcpy(changed, request, bytes);
        for (uint32_t n = rng_below(&r, 3); n < 3; n++) {
            // From the document's own characters: more of these texts stay JSON than with random bytes.
            changed[rng_below(&r, bytes)] = request[rng_below(&r, bytes)];
        }
        load_weights();
        uint32_t length = i % 4 == 0 ? rng_below(&r, bytes) : bytes;
        errors += is_error(call_bytes(OPERATIONS[rng_below(&r, OPERATION_COUNT)], changed, length));
    }
    take_back(data, chunk.length);
    CHECK(errors > 2000 && errors < 4000, "%d errors of 4000: the changes are too wild or too tame", errors);
}

static void test_a_changed_file_is_refused_or_trained_on(void) {
    char request[512];
    rng r = rng_start(3, 0);
    int errors = 0;
    for (int i = 0; i < 3000; i++) {
        block changed = chunk;
        for (uint32_t n = rng_below(&r, 2); n < 2; n++)
            changed.bytes[rng_below(&r, chunk.length)] = (uint8_t)rng_below(&r, i % 2 == 0 ? 256 : 7);
        uint32_t bytes = chunk.length - (i % 5 == 0 ? rng_below(&r, 12) : 0);
        uint32_t data = give(changed.bytes, bytes);
        write_request(request, sizeof request, data, bytes);
        load_weights();
        errors += is_error(call(i % 3 == 0 ? weei_evaluate : weei_train, "%s", request));
        take_back(data, bytes);
    }
    CHECK(errors > 1000 && errors < 2900, "%d errors of 3000", errors);
}

// In a child, since a module meets one configuration only. Returns whether training was refused.
static bool refuses_configuration(const block *changed) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        char request[512];
        uint32_t data = give(chunk.bytes, chunk.length);
        write_request(request, sizeof request, data, chunk.length);
        native_configuration = at_address(give(changed->bytes, changed->length));
        load_weights();
        for (int i = 0; i < OPERATION_COUNT; i++)
            if (OPERATIONS[i] != weei_loadModel) call(OPERATIONS[i], "%s", request);
        _exit(is_error(call(weei_train, "%s", request)) ? 2 : 0);
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
    for (int i = 0; i < 400; i++) {
        block changed = configuration;
        uint32_t skipped = i % 2 == 0 ? 0 : VALUES_AT, at = skipped + rng_below(&r, changed.length - skipped);
        if (at >= 8 && at < 12) continue;  // the segment's length is the generator's word
        changed.bytes[at] = (uint8_t)rng_below(&r, i % 3 == 0 ? 256 : 8);
        refused += refuses_configuration(&changed);
    }
    CHECK(refused > 60 && refused < 390, "%d of 400 refused", refused);
}

static void test_texts_are_cut_into_tokens(void) {
    static const char *const GOOD[] = {"a", "abab\\u00e9", "<e>", "ab<e>ab", "\\u00E9\\u00e9"};
    static const char *const BAD[] = {"", "d", "\\u0000", "\\ud83d", "\\ud83d\\ude00", "<", "\\n", "a<f>", "aab<e"};
    load_weights();
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        const char *answer = call(weei_predict, "{\"input\":{\"text\":\"%s\",\"temperature\":0}}", GOOD[i]);
        CHECK(!is_error(answer), "%s: %s", GOOD[i], answer);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        const char *answer = call(weei_predict, "{\"input\":{\"text\":\"%s\"}}", BAD[i]);
        CHECK(is_error(answer), "%s: %s", BAD[i], answer);
    }
}

static void test_reports_memory_that_is_not_there(void) {
    uint32_t data = give(chunk.bytes, chunk.length);
    char request[512];
    write_request(request, sizeof request, data, chunk.length);
    load_weights();
    // Fill the heap but for a block the request fits into and what training needs does not.
    uint32_t kept = weei_alloc(1024);
    for (uint32_t bytes = NATIVE_PAGES * PAGE_BYTES; bytes >= 16; bytes /= 2)
        while (weei_alloc(bytes) != 0) continue;
    weei_free(kept, 1024);
    operation *const hungry[] = {weei_train, weei_evaluate, weei_predict, weei_createInitialWeights};
    for (int i = 0; i < 4; i++) {
        const char *answer = call(hungry[i], "%s", request);
        CHECK(strncmp(answer, "{\"error\":\"out of memory", 23) == 0, "%s", answer);
    }
}

int main(void) {
    make_configuration();
    make_chunk();
    CHECK(strstr(call(weei_train, "{}"), "This module has no configuration.") != NULL, "without a configuration");
    test_a_changed_configuration_is_refused_or_used();
    native_configuration = configuration.bytes;
    test_every_operation_survives_a_changed_request();
    test_a_changed_file_is_refused_or_trained_on();
    test_texts_are_cut_into_tokens();
    test_reports_memory_that_is_not_there();
    return 0;
}
