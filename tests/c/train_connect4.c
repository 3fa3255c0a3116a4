// Trains once and writes the weights to stdout. tests/models compares them with what the WebAssembly build of the same
// sources returns for the same request.
#include <string.h>

#include "../../reference_models/connect4/network.h"
#include "check.h"
#include "native.h"

static uint32_t made(uint64_t seed) {
    static parameters weights;
    network_initialize(&weights, seed);
    uint32_t block = weei_alloc(WEIGHT_BYTES);
    memcpy(at_address(block), &weights, WEIGHT_BYTES);
    return block;
}

int main(void) {
    uint32_t block = made(7), opponent = made(8);
    call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%d}}", block, WEIGHT_BYTES);
    call(weei_loadAuxiliary, "{\"id\":\"opponent\",\"weights\":{\"pointer\":%u,\"bytes\":%d}}", opponent, WEIGHT_BYTES);
    const char *answer = call(weei_train,
                              "{\"experience\":{\"seed\":\"3\",\"unitStart\":40,\"unitCount\":6},"
                              "\"settings\":{\"localEpochs\":3,\"batchSize\":16},\"round\":1}");
    CHECK(strstr(answer, "error") == NULL, "%s", answer);
    fwrite(at_address(block), 1, WEIGHT_BYTES, stdout);
    return 0;
}
