// What a module needs from its machine: linear memory that grows by pages, and one callback.
// In WebAssembly these are instructions and an import; tests/c has a native twin, so that the same
// sources run under AddressSanitizer. Addresses cross the ABI as unsigned 32-bit numbers.
#ifndef WEEI_PLATFORM_H
#define WEEI_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGE_BYTES = 65536 };

#ifdef __wasm__

#define WEEI_EXPORT(name) __attribute__((export_name(name)))

__attribute__((import_module("weei"), import_name("onProgress")))
void weei_on_progress(uint32_t pointer, uint32_t bytes);

extern unsigned char __heap_base;  // set by the linker: first byte behind stack and static data

static inline uint32_t platform_heap_begin(void) { return (uint32_t)&__heap_base; }
static inline uint64_t platform_heap_end(void) { return (uint64_t)__builtin_wasm_memory_size(0) * PAGE_BYTES; }
static inline bool platform_grow(uint32_t pages) { return __builtin_wasm_memory_grow(0, pages) != (size_t)-1; }

#else

#define WEEI_EXPORT(name)

void weei_on_progress(uint32_t pointer, uint32_t bytes);
uint32_t platform_heap_begin(void);
uint64_t platform_heap_end(void);
bool platform_grow(uint32_t pages);

#endif

static inline void *at_address(uint32_t address) { return (void *)(uintptr_t)address; }
static inline uint32_t address_of(const void *pointer) { return (uint32_t)(uintptr_t)pointer; }

#endif
