// Trains once and writes the weights to stdout: `train_transformer CONFIGURATION CHUNK WEIGHTS SETTINGS`. tests/models
// compares them with what the WebAssembly build returns for the same request; stderr gets the seconds.
#include <string.h>
#include <time.h>

#include "check.h"
#include "native.h"

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t load(const char *name, uint32_t *bytes) {
    FILE *file = fopen(name, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0, "cannot open %s", name);
    *bytes = (uint32_t)ftell(file);
    uint32_t address = weei_alloc(*bytes);
    CHECK(address != 0, "no memory for %s", name);
    rewind(file);
    CHECK(fread(at_address(address), 1, *bytes, file) == *bytes, "cannot read %s", name);
    fclose(file);
    return address;
}

int main(int count, char **arguments) {
    CHECK(count == 5, "usage: train_transformer CONFIGURATION CHUNK WEIGHTS SETTINGS");
    uint32_t bytes, chunk_bytes, weight_bytes;
    native_configuration = at_address(load(arguments[1], &bytes));
    uint32_t weights = load(arguments[3], &weight_bytes);
    const char *answer = call(weei_loadModel, "{\"weights\":{\"pointer\":%u,\"bytes\":%u}}", weights, weight_bytes);
    CHECK(strcmp(answer, "{}") == 0, "%s", answer);
    uint32_t chunk = load(arguments[2], &chunk_bytes);
    double begin = seconds();
    answer = call(weei_train,
                  "{\"data\":{\"pointer\":%u,\"bytes\":%u,\"format\":\"weei-tokens\"},\"settings\":%s,\"round\":1,"
                  "\"seed\":\"3\"}",
                  chunk, chunk_bytes, arguments[4]);
    CHECK(strstr(answer, "error") == NULL, "%s", answer);
    fprintf(stderr, "%g\n", seconds() - begin);
    fwrite(at_address(weights), 1, weight_bytes, stdout);
    return 0;
}
