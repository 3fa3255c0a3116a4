// Tokenizes texts with the vocabulary in a file: `transformer_tokens VOCABULARY TOKENS`. stdin holds texts, each behind
// its number of bytes and a line feed; stdout gets a line of ids for each, or of the error. tests/models compares that
// with the generator's tokenizer.
#include <string.h>

#include "../../reference_models/lib/tokens.h"
#include "check.h"
#include "native.h"

static vocabulary words;

static uint32_t load(const char *name, uint32_t *bytes) {
    static uint8_t content[1 << 20];
    FILE *file = fopen(name, "rb");
    CHECK(file != NULL, "cannot open %s", name);
    *bytes = (uint32_t)fread(content, 1, sizeof content, file);
    fclose(file);
    return give(content, *bytes);
}

static void print_tokens(const char *text, uint32_t bytes) {
    static _Alignas(16) uint8_t empty[1 << 21];
    uint64_t needed = vocabulary_scratch(&words, bytes);
    CHECK(needed < sizeof empty, "%g bytes of scratch", (double)needed);
    uint32_t copy = give(text, bytes), scratch = give(empty, (uint32_t)needed), count;
    const uint32_t *ids = vocabulary_encode(&words, at_address(copy), bytes, at_address(scratch), &count);
    if (ids == NULL) printf("error");
    for (uint32_t i = 0; ids != NULL && i < count; i++) printf("%u ", ids[i]);
    printf("\n");
    take_back(scratch, (uint32_t)needed);
    take_back(copy, bytes);
}

int main(int count, char **arguments) {
    static char text[MOST_TEXT_BYTES];
    CHECK(count == 3, "usage: transformer_tokens VOCABULARY TOKENS");
    uint32_t bytes, length;
    uint32_t blob = load(arguments[1], &bytes);
    CHECK(vocabulary_open(&words, at_address(blob), bytes, (uint32_t)atoi(arguments[2])), "not a vocabulary");
    while (scanf("%u", &length) == 1 && getchar() == '\n') {
        CHECK(length <= sizeof text && fread(text, 1, length, stdin) == length, "a text of %u bytes", length);
        print_tokens(text, length);
    }
    return 0;
}
