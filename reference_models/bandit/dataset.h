// The file format bandit-f32-v1 (README.md): a header of 16 bytes, then records of 20 bytes.
#ifndef BANDIT_DATASET_H
#define BANDIT_DATASET_H

#include "../lib/weei.h"

#define BANDIT_FORMAT "bandit-f32-v1"

enum {
    FEATURES = 4,  // each -1 to 1
    ACTIONS = 3,
    RECORD_BYTES = (FEATURES + 1) * 4,  // the context, then its best action
    HEADER_BYTES = 16,
    MOST_RECORDS = 10000,
    MOST_BYTES = HEADER_BYTES + MOST_RECORDS * RECORD_BYTES,
};

typedef struct {
    const uint8_t *records;  // (count, RECORD_BYTES), those the request selects
    uint32_t count;
} dataset;

// Checks the whole file and the request's record range; false with the error set.
bool dataset_open(json request, dataset *selected);

void dataset_load(const dataset *d, uint32_t first, uint32_t count,
                  float *contexts,        // (count, FEATURES)
                  uint8_t *best_actions)  // (count)
    ;

#endif
