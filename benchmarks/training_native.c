// Measures assignments of the transformer in a native build: `training_native SEGMENT WEIGHTS CHUNK REPEATS SETTINGS OUT`
// prints the seconds of each, from weights to trained weights, and writes the last one's to OUT. SEGMENT is the module's
// configuration. The machine is as small as a module's: linear memory that grows, below 2 GiB.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../reference_models/lib/config.h"

uint32_t weei_loadModel(uint32_t pointer, uint32_t bytes);
uint32_t weei_train(uint32_t pointer, uint32_t bytes);
uint32_t weei_result_length(void);

enum { PAGES = 4096, ANSWER_BYTES = 4096 };

static uint8_t *memory;
static uint32_t pages;
static _Alignas(16) uint8_t segment[CONFIG_BYTES];

const volatile uint8_t *config_segment(void) { return segment; }

uint32_t platform_heap_begin(void) {
    if (memory == NULL) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
        memory = mmap(NULL, (size_t)PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) {
            fputs("There is no memory below 2 GiB.\n", stderr);
            exit(1);
        }
    }
    return address_of(memory);
}

uint64_t platform_heap_end(void) { return platform_heap_begin() + (uint64_t)pages * PAGE_BYTES; }

bool platform_grow(uint32_t more) {
    if (more > PAGES - pages) return false;
    pages += more;
    return true;
}

void weei_on_progress(uint32_t pointer, uint32_t bytes) {
    (void)pointer;
    (void)bytes;
}

// A file as a block of the module's heap.
static uint32_t given(const uint8_t *content, uint32_t bytes) {
    uint32_t address = weei_alloc(bytes);
    memcpy(at_address(address), content, bytes);
    return address;
}

static uint32_t read_file(const char *path, uint8_t *content, uint32_t most) {
    FILE *file = fopen(path, "rb");
    uint32_t bytes = file == NULL ? 0 : (uint32_t)fread(content, 1, most, file);
    if (bytes == 0 || bytes == most) {
        fprintf(stderr, "%s cannot be read, is empty or too large.\n", path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

// The program ends with the module's sentence when the operation fails.
static void run(uint32_t (*operation)(uint32_t, uint32_t), const char *request) {
    uint32_t bytes = (uint32_t)strlen(request), address = given((const uint8_t *)request, bytes);
    const char *answer = at_address(operation(address, bytes));
    if (strncmp(answer, "{\"error\"", 8) == 0) {
        fprintf(stderr, "%.*s\n", (int)weei_result_length(), answer);
        exit(1);
    }
    weei_free(address, bytes);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int count, char **arguments) {
    enum { MOST_BYTES = 64 << 20 };
    static uint8_t weights[MOST_BYTES], chunk[MOST_BYTES];
    char request[ANSWER_BYTES];
    if (count != 7) {
        fputs("usage: training_native SEGMENT WEIGHTS CHUNK REPEATS SETTINGS OUT\n", stderr);
        return 1;
    }
    read_file(arguments[1], segment, sizeof segment);
    uint32_t weight_bytes = read_file(arguments[2], weights, MOST_BYTES);
    uint32_t chunk_bytes = read_file(arguments[3], chunk, MOST_BYTES), loaded = 0;
    for (int repeats = atoi(arguments[4]); repeats > 0; repeats--) {
        double begun = now();
        loaded = given(weights, weight_bytes);
        snprintf(request, sizeof request, "{\"weights\":{\"pointer\":%u,\"bytes\":%u}}", loaded, weight_bytes);
        run(weei_loadModel, request);
        uint32_t data = given(chunk, chunk_bytes);
        snprintf(request, sizeof request,
                 "{\"data\":{\"pointer\":%u,\"bytes\":%u,\"format\":\"weei-tokens\"},\"settings\":%s,\"round\":1,"
                 "\"seed\":\"1\"}",
                 data, chunk_bytes, arguments[5]);
        run(weei_train, request);
        weei_free(data, chunk_bytes);
        printf("%.9f\n", now() - begun);
    }
    FILE *out = fopen(arguments[6], "wb");
    return out == NULL || fwrite(at_address(loaded), 1, weight_bytes, out) != weight_bytes || fclose(out) != 0;
}
