// Trains once and writes the weights to stdout: `train_digits FILE`. tests/models compares them with what
// the WebAssembly build of the same sources returns for the same request.
#include <string.h>

#include "../../reference_models/digits/network.h"
#include "check.h"
#include "native.h"

int main(int count, char **arguments) {
    static uint8_t content[MOST_BYTES];
    static float weights[WEIGHTS];
    CHECK(count == 2, "usage: train_digits FILE");
    FILE *file = fopen(arguments[1], "rb");
    CHECK(file != NULL, "cannot open %s", arguments[1]);
    uint32_t bytes = (uint32_t)fread(content, 1, sizeof content, file);
    fclose(file);

    network_initialize(weights, 7);
    uint32_t block = weei_alloc(WEIGHT_BYTES);
    memcpy(at_address(block), weights, WEIGHT_BYTES);
    call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%d}}", block, WEIGHT_BYTES);
    uint32_t data = give(content, bytes);
    const char *answer = call(weei_train,
                              "{\"data\":{\"pointer\":%u,\"bytes\":%u,\"format\":\"digits-u8-v1\"},"
                              "\"settings\":{\"localEpochs\":5,\"batchSize\":16},\"round\":1,\"seed\":\"3\"}",
                              data, bytes);
    CHECK(strstr(answer, "error") == NULL, "%s", answer);
    fwrite(at_address(block), 1, WEIGHT_BYTES, stdout);
    return 0;
}
