// The native twin of a module's machine (lib/platform.h) and a small host for its operations.
#ifndef NATIVE_H
#define NATIVE_H

#include "../../reference_models/lib/weei.h"

enum { NATIVE_PAGES = 128, NATIVE_FIRST_PAGES = 2 };  // the maximum and the size at the start

extern int progress_reports;

// What the module finds where a configuration lies in WebAssembly (lib/config.h): 16-byte aligned, below 4 GiB, and at
// least a header of 48 bytes. At the start a header of zeros, which is no configuration.
extern const uint8_t *native_configuration;

typedef uint32_t operation(uint32_t pointer, uint32_t bytes);
operation weei_getModelInfo, weei_createInitialWeights, weei_loadModel, weei_loadAuxiliary, weei_train, weei_evaluate,
    weei_inspectData, weei_predict;
uint32_t weei_result_length(void);

// A block with a red zone around what lies behind it, so that AddressSanitizer sees each byte too many.
uint32_t give(const void *content, uint32_t bytes);
void take_back(uint32_t address, uint32_t bytes);

// Calls with a request of exactly these bytes; the answer is a terminated copy, valid until the next call.
const char *call_bytes(operation *run, const char *request, uint32_t bytes);
const char *call(operation *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
