// The chunk format `weei-tokens`, little-endian:
//
//   u32 "WTOK", version 1, records, V
//   records x (u32 first, u16 length, u16 loss_from)
//   u16 tokens to the end of the file, padded with one more to a multiple of 4 bytes
//
// Record r is tokens[first … first + length); its targets are those from index max(1, loss_from) on. Records may
// overlap.
#ifndef TRANSFORMER_DATASET_H
#define TRANSFORMER_DATASET_H

#include "network.h"

#define TOKENS_FORMAT "weei-tokens"

typedef struct {
    const uint8_t *table, *tokens;  // the file's records and tokens
    uint32_t first, count;          // the records that were asked for
    bool partial;                   // one of them has targets it is not trained on
} dataset;

typedef struct {
    const uint8_t *tokens;        // (length) u16
    uint32_t length, first_target;  // 2 to context + 1; 1 to length - 1
} token_record;

// The request's data, checked whole, also what a range leaves out. False with the error set.
bool dataset_open(json request, const sizes *s, dataset *selected);

token_record dataset_record(const dataset *d, uint32_t index);  // of the whole file

// The part of `order` from `at` to `end` that fits one tile: places it there and returns how many records it has.
uint32_t dataset_load(const dataset *d, const sizes *s, const uint32_t *order, uint32_t at, uint32_t end, tile *t);

#endif
