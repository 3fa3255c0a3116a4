// Text between JSON and bytes.
#ifndef TRANSFORMER_TEXT_H
#define TRANSFORMER_TEXT_H

#include "../lib/json.h"

// UTF-8 of a JSON string; a surrogate without its other half becomes U+FFFD. `out` has room for value.bytes. Returns
// its length.
uint32_t text_from_json(json value, uint8_t *out);

enum { JSON_BYTES_PER_BYTE = 6 };  // the most that text_to_json writes for one byte

// The inside of a JSON string, without quotes. What is no UTF-8, and U+0000, which hosts refuse, becomes U+FFFD. `out`
// has room for JSON_BYTES_PER_BYTE * bytes. Returns its length.
uint32_t text_to_json(const uint8_t *text, uint32_t bytes, char *out);

#endif
