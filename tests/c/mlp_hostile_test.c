// Every operation of the module `mlp` on damaged configurations, files and requests, under the sanitizers: an answer each
// time, never an access outside what was given.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../reference_models/lib/config.h"
#include "check.h"
#include "native.h"

enum { INPUTS = 3, OUTPUTS = 2, HIDDEN = 4, WEIGHTS = INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS };
enum { RECORDS = 3, CHUNK_BYTES = 24 + RECORDS * INPUTS * 4 + RECORDS * 4 };

typedef struct {
    uint8_t bytes[512];
    uint32_t length;
} text;

static void append(text *t, const void *content, size_t bytes) {
    memcpy(t->bytes + t->length, content, bytes);
    t->length += (uint32_t)bytes;
}

static void append_u32(text *t, uint32_t value) { append(t, &value, sizeof value); }

static text make_configuration(void) {
    static const char info[] = "{\"id\":\"x\"}     ";
    static const double values[] = {INPUTS, OUTPUTS, 0, 1, 1, 0.01, 0.01, 1, 1, 0.9, 0.999, 1e-8, 0, HIDDEN};
    static const float statistics[INPUTS * 2] = {0, 1, 2, 0.5f, -1, 3};
    const uint32_t count = sizeof values / sizeof *values, names = 4 + 4 + 2 + 4 + 3, vocab = 64 + 8 * count;
    text t = {.length = 0};
    const uint32_t head[] = {0x47464357, 1, vocab + names + sizeof statistics, CONFIG_MLP, 48, sizeof info - 1,
                             64, count, vocab, names + sizeof statistics, 0, 0};
    append(&t, head, sizeof head);
    append(&t, info, sizeof info);
    t.length = 64;
    append(&t, values, sizeof values);
    append_u32(&t, OUTPUTS);
    append_u32(&t, 2);
    append(&t, "no", 2);
    append_u32(&t, 3);
    append(&t, "yes", 3);
    append(&t, statistics, sizeof statistics);
    return t;
}

static text make_chunk(void) {
    const uint32_t head[] = {0x574f5257, 1, RECORDS, INPUTS, 1, 0};
    text t = {.length = 0};
    append(&t, head, sizeof head);
    for (int i = 0; i < RECORDS * INPUTS; i++) {
        float value = (float)i / 4 - 1;
        append(&t, &value, sizeof value);
    }
    for (uint32_t r = 0; r < RECORDS; r++) append_u32(&t, r % OUTPUTS);
    return t;
}

// The module keeps a configuration that it could use, so that each is tried by a child of its own.
static int status_of_child(void (*play)(const text *), const text *given) {
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        play(given);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    return status;
}

static void configure(const text *given) { native_configuration = at_address(give(given->bytes, given->length)); }

static const char *on_data(operation *run, const text *chunk) {
    uint32_t data = give(chunk->bytes, chunk->length);
    const char *answer = call(run,
                              "{\"data\":{\"pointer\":%u,\"bytes\":%u,\"format\":\"weei-rows\"},\"settings\":"
                              "{\"localEpochs\":2,\"batchSize\":2},\"round\":1,\"seed\":\"3\"}",
                              data, chunk->length);
    take_back(data, chunk->length);
    return answer;
}

static void load_weights(uint32_t count) {
    float block[1024];
    CHECK(count <= 1024, "%u weights", count);
    for (uint32_t i = 0; i < count; i++) block[i] = (float)(i % 7) / 8 - 0.4f;
    uint32_t bytes = 4 * count, weights = weei_alloc(bytes);
    memcpy(at_address(weights), block, bytes);
    call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%u}}", weights, bytes);
}

static void play_all(const text *given) {
    configure(given);
    call(weei_getModelInfo, "{}");
    const char *initial = call(weei_createInitialWeights, "{\"seed\":\"1\"}"), *bytes = strstr(initial, "\"bytes\":");
    if (bytes == NULL || atoi(bytes + 8) > 4096) return;  // refused, or a network too large for this test
    load_weights((uint32_t)atoi(bytes + 8) / 4);
    text chunk = make_chunk();
    on_data(weei_train, &chunk);
    on_data(weei_evaluate, &chunk);
    on_data(weei_inspectData, &chunk);
    call(weei_predict, "{\"input\":{\"values\":[1,2,3]}}");
}

static void test_damaged_configurations(void) {
    text honest = make_configuration();
    for (uint32_t at = 0; at < honest.length; at++) {
        static const uint8_t WRONG[] = {0, 1, 0x7f, 0x80, 0xff};
        for (size_t w = 0; w < sizeof WRONG; w++) {
            text damaged = honest;
            damaged.bytes[at] = w == 1 ? damaged.bytes[at] + 1 : WRONG[w];
            if (at >= 8 && at < 12 && u32_at(damaged.bytes + 8) > honest.length) continue;  // longer than what is there
            CHECK(status_of_child(play_all, &damaged) == 0, "configuration byte %u, %zu", at, w);
        }
    }
}

static void test_no_configuration_is_a_sentence(void) {
    const char *answer = call(weei_getModelInfo, "{}");
    CHECK(strcmp(answer, "{\"error\":\"This module has no configuration.\"}") == 0, "%s", answer);
    call(weei_train, "{}");
    call(weei_predict, "{}");
}

static void test_damaged_files(void) {
    text honest = make_chunk();
    load_weights(WEIGHTS);
    CHECK(strstr(on_data(weei_train, &honest), "\"uniqueExamples\":3") != NULL, "an honest file");
    for (uint32_t at = 0; at < honest.length; at++)
        for (int w = 0; w < 256; w += 17) {
            text damaged = honest;
            damaged.bytes[at] = (uint8_t)w;
            load_weights(WEIGHTS);
            on_data(weei_train, &damaged);
            on_data(weei_evaluate, &damaged);
            on_data(weei_inspectData, &damaged);
        }
    for (text cut = honest; cut.length > 0; cut.length--) {
        const char *answer = on_data(weei_inspectData, &cut);
        CHECK((strstr(answer, "error") == NULL) == (cut.length == honest.length), "%u bytes: %s", cut.length, answer);
    }
}

static void test_inputs_of_a_prediction(void) {
    load_weights(WEIGHTS);
    const char *answer = call(weei_predict, "{\"input\":{\"values\":[1,-2.5,1e30]}}");
    CHECK(strstr(answer, "\"probabilities\":{\"no\":") != NULL, "%s", answer);
    static const char *const WRONG[] = {"[]", "[1,2]", "[1,2,3,4]", "{}", "null", "[1,2,\"3\"]", "[1,2,1e300]", "[[1,2,3]]"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        answer = call(weei_predict, "{\"input\":{\"values\":%s}}", WRONG[i]);
        CHECK(strstr(answer, "input.values") != NULL, "%s: %s", WRONG[i], answer);
    }
}

int main(void) {
    test_no_configuration_is_a_sentence();
    test_damaged_configurations();
    text honest = make_configuration();
    configure(&honest);
    test_damaged_files();
    test_inputs_of_a_prediction();
    return 0;
}
