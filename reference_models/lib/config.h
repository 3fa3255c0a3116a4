// The configuration of a base module: a data segment that weei_core/generator puts behind the stack. It holds what
// getModelInfo answers, the sizes and defaults of the network, and names or a vocabulary. Little-endian:
//
//   u32 magic "WCFG", version 1, bytes of the whole segment, kind
//   u32 info offset, bytes        ModelInfo, compact JSON
//   u32 values offset, count      doubles
//   u32 vocabulary offset, bytes
//   u32 0, 0
//
// Offsets count from the segment's start and are multiples of 8. The segment is read where it lies and never changed.
#ifndef WEEI_CONFIG_H
#define WEEI_CONFIG_H

#include "weei.h"

enum {
    CONFIG_ADDRESS = 65536,   // the end of the stack
    CONFIG_BYTES = 4128768,   // the most a segment may have: up to the static data, `--global-base` in build.py
    CONFIG_INFO_BYTES = 262144,  // the most that hosts take as ModelInfo
};

enum { CONFIG_MLP = 1, CONFIG_TRANSFORMER = 2, CONFIG_TEXT_POLICY = 3 };

typedef struct {
    const uint8_t *info;  // (info_bytes) JSON object
    uint32_t info_bytes;
    const double *values;  // (values_count), each finite
    uint32_t values_count;
    const uint8_t *vocab;  // (vocab_bytes), not looked at here; 8-byte aligned
    uint32_t vocab_bytes;
} config;

// Checks the segment and points `out` into it. False with the error set when there is none, or one of another kind.
bool config_load(config *out, uint32_t kind);

// One value as a number or an integer of this range. False with the error set, which calls it `name`.
bool config_number(const config *c, uint32_t index, const char *name, double minimum, double maximum, double *value);
bool config_integer(const config *c, uint32_t index, const char *name, uint32_t minimum, uint32_t maximum,
                    uint32_t *value);

// Little-endian numbers at any address.
uint32_t u32_at(const uint8_t *bytes);
float f32_at(const uint8_t *bytes);

// Answers the configuration's ModelInfo as it stands, however long: for the body of LONG_OPERATION(getModelInfo).
bool config_write_info(const config *c, json_writer *result);

// WEEI_OPERATION for an answer that may be longer than the library's own buffer: the body may begin its result
// elsewhere, with json_start(result, text, capacity). That text must live until the next operation.
#define LONG_OPERATION(name)                                                              \
    static bool answer_##name(json request, json_writer *result);                         \
    static bool run_##name(json request, json_writer *result) {                           \
        config_result = result;                                                           \
        return answer_##name(request, result);                                            \
    }                                                                                     \
    WEEI_EXPORT(#name) uint32_t weei_##name(uint32_t pointer, uint32_t bytes);            \
    uint32_t weei_##name(uint32_t pointer, uint32_t bytes) {                              \
        uint32_t address = weei_run(pointer, bytes, run_##name);                          \
        return config_result == NULL ? address : address_of(config_result->text);         \
    }                                                                                     \
    static bool answer_##name(json request, json_writer *result)

extern json_writer *config_result;  // the library's one writer, once LONG_OPERATION has met it; its text is the answer

#ifdef __wasm__
static inline const volatile uint8_t *config_segment(void) { return (const volatile uint8_t *)CONFIG_ADDRESS; }
#else
const volatile uint8_t *config_segment(void);  // of tests/c/native.c
#endif

#endif
