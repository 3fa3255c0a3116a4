// The tokenizer of a configuration's vocabulary, for `predict`. All numbers are u32, little-endian:
//
//   kind (0 bytes, 1 characters, 2 BPE), token_count, merge_count, special_count
//   token_count x (offset from here, bytes)      the tokens' texts
//   merge_count x (left, right, result)          in rank order
//   special_count x id
//   the texts
//
// Specials are found first, the longest where several begin, and never cut. Of the rest each character whose text is a
// token is that token, else each of its bytes; a merge's result is no token to begin with. Then the pair of neighbours
// of the lowest rank is merged, everywhere from left to right, until none is left; merges never cross a special.
#ifndef WEEI_TOKENS_H
#define WEEI_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_TEXT_BYTES = 32768 };  // that are tokenized at a time

typedef struct {
    const uint8_t *blob;
    const uint8_t *token_table, *merge_table, *special_table;
    uint32_t token_count, merge_count, special_count;
} vocabulary;

// Checks all of it and points into it. False with the error set. `tokens` is how many the model has.
bool vocabulary_open(vocabulary *v, const uint8_t *blob, uint32_t bytes, uint32_t tokens);

// The text of a token, not terminated.
const uint8_t *vocabulary_text(const vocabulary *v, uint32_t token, uint32_t *bytes);

// Bytes of scratch, 16-byte aligned, for a text of this length.
uint64_t vocabulary_scratch(const vocabulary *v, uint32_t text_bytes);

// Tokens of the text, which lie in the scratch: their number in *count. NULL with the error set when some character has
// none.
const uint32_t *vocabulary_encode(const vocabulary *v, const uint8_t *text, uint32_t bytes, void *scratch,
                                  uint32_t *count);

#endif
