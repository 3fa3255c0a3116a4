// Weei WASM ABI 1, the side of the module: every operation takes and returns JSON, reads its parameters
// with the functions below, and answers a failure with {"error": "sentence"}, never with a trap.
#ifndef WEEI_H
#define WEEI_H

#include "alloc.h"
#include "json.h"

// Defines the export `name` around a body `static bool run_name(json request, json_writer *result)`,
// which writes one object, or returns weei_fail(...).
#define WEEI_OPERATION(name)                                                \
    static bool run_##name(json request, json_writer *result);              \
    WEEI_EXPORT(#name) uint32_t weei_##name(uint32_t pointer, uint32_t bytes); \
    uint32_t weei_##name(uint32_t pointer, uint32_t bytes) {                \
        return weei_run(pointer, bytes, run_##name);                        \
    }                                                                       \
    static bool run_##name(json request, json_writer *result)

uint32_t weei_run(uint32_t pointer, uint32_t bytes, bool (*operation)(json request, json_writer *result));

// Sets this operation's error and returns false. Only %s and %g (a double) are understood; the first
// error of an operation is the one reported.
__attribute__((format(printf, 1, 2))) bool weei_fail(const char *format, ...);

// Readers of one field. `path` is what error messages call it; the part behind its last dot is the key.
// Each returns false with the error set when the field is missing, of another type or out of range.
bool weei_object(json parent, const char *path, json *value);
bool weei_number(json parent, const char *path, double minimum, double maximum, double *value);
bool weei_integer(json parent, const char *path, uint64_t minimum, uint64_t maximum, uint64_t *value);
bool weei_seed(json request, uint64_t *seed);
bool weei_seed_at(json parent, const char *path, uint64_t *seed);  // the same in another place

typedef struct {
    uint32_t address, bytes;
} weei_buffer;

// {pointer, bytes}: in memory that `alloc` gave, 16-byte aligned as all of its blocks are.
bool weei_read_buffer(json parent, const char *path, weei_buffer *buffer);
void weei_write_buffer(json_writer *result, const char *key, const void *data, uint32_t bytes);

typedef struct {
    const uint8_t *bytes;
    uint32_t length;
    bool ranged;  // recordStart and recordCount were given
    uint64_t record_start, record_count;
} weei_data;

// The request's `data`, which must have this format. The caller compares the range with the records.
bool weei_read_data(json request, const char *format, weei_data *data);

typedef struct {
    uint64_t seed, unit_start;
    uint32_t unit_count;
} weei_experience;

// The request's `experience`, of 1 to `most_units` units.
bool weei_read_experience(json request, uint32_t most_units, weei_experience *experience);

typedef struct {
    uint32_t local_epochs, batch_size;
    double learning_rate;
} weei_settings;

// The request's `settings`; learning_rate keeps its value when the request leaves it out.
bool weei_read_settings(json request, weei_settings *settings);

// Opens a report to the host and its `metrics` object, which the caller fills; then send it.
json_writer *weei_begin_progress(uint64_t processed, uint64_t total, uint64_t optimizer_steps);
void weei_send_progress(void);

#endif
