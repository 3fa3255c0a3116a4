// Reading and writing JSON in place: a value is a span of the request's text, so nothing is allocated.
#ifndef WEEI_JSON_H
#define WEEI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One complete, well-formed value: its first character tells the kind ({ [ " t f n or a number's).
typedef struct {
    const char *text;
    uint32_t bytes;
} json;

// Whether the text is exactly one value by RFC 8259, nested at most 32 deep. Bytes from 0x80 up are
// taken as they are: the host has checked that they are UTF-8, and no operation keeps them.
bool json_parse(const char *text, uint32_t bytes, json *value);

// The first member with this key; false when there is none or `object` is not an object.
bool json_member(json object, const char *key, json *value);

// Walks an array: start with *value = {0}; false behind the last element or if it is not an array.
bool json_next(json array, json *value);

// False unless it is a number of at most 17 significant digits that a double can hold.
bool json_to_double(json value, double *number);

// A decimal string of an unsigned 64-bit integer, without sign or leading zeros: "0" to 2^64 - 1.
bool json_to_u64(json value, uint64_t *number);

// Whether it is this string; `text` must need no escapes.
bool json_is_text(json value, const char *text);

// Appends to a fixed buffer and puts the commas. Text that does not fit sets `overflow`.
typedef struct {
    char *text;
    uint32_t capacity, bytes;
    bool comma, overflow;
} json_writer;

void json_start(json_writer *w, char *text, uint32_t capacity);
void json_open(json_writer *w, char bracket);   // '{' or '['
void json_close(json_writer *w, char bracket);  // '}' or ']'
void json_key(json_writer *w, const char *key);
void json_string(json_writer *w, const char *text);
void json_integer(json_writer *w, uint64_t value);
void json_number(json_writer *w, double value);   // finite
void json_value(json_writer *w, const char *json_text);  // a value that is JSON already

#endif
