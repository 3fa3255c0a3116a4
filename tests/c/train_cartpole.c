// Trains once and writes the weights to stdout. tests/models compares them with what the WebAssembly build of the same
// sources returns for the same request.
#include <string.h>

#include "../../reference_models/cartpole/policy.h"
#include "check.h"
#include "native.h"

int main(void) {
    parameters weights;
    policy_initialize(&weights, 7);
    uint32_t block = weei_alloc(WEIGHT_BYTES);
    memcpy(at_address(block), &weights, WEIGHT_BYTES);
    call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%d}}", block, WEIGHT_BYTES);
    const char *answer = call(weei_train,
                              "{\"experience\":{\"seed\":\"3\",\"unitStart\":64,\"unitCount\":200},"
                              "\"settings\":{\"localEpochs\":1,\"batchSize\":16},\"round\":1}");
    CHECK(strstr(answer, "error") == NULL, "%s", answer);
    fwrite(at_address(block), 1, WEIGHT_BYTES, stdout);
    return 0;
}
