// The file format digits-u8-v1 (README.md): a header of 16 bytes, then records of 65 bytes.
#ifndef DIGITS_DATASET_H
#define DIGITS_DATASET_H

#include "../lib/weei.h"

#define DIGITS_FORMAT "digits-u8-v1"

enum {
    PIXELS = 64,  // 8 x 8, row by row
    DIGITS = 10,
    BRIGHTEST = 16,
    RECORD_BYTES = PIXELS + 1,  // the pixels, then the label
    HEADER_BYTES = 16,
    MOST_RECORDS = 100000,
    MOST_BYTES = HEADER_BYTES + MOST_RECORDS * RECORD_BYTES,
};

typedef struct {
    const uint8_t *records;  // (count of the file, RECORD_BYTES)
    uint32_t first, count;   // the records the request selects
} dataset;

// Checks the whole file and the request's record range; false with the error set.
bool dataset_open(json request, dataset *selected);

// Copies `count` records into the network's form: pixels divided by 16, which is exact.
void dataset_load(const dataset *d, const uint32_t *indices, uint32_t count,
                  float *input,     // (count, PIXELS)
                  uint8_t *labels)  // (count)
    ;

#endif
