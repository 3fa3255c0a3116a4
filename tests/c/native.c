#define _GNU_SOURCE
#include "native.h"

#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "../../reference_models/lib/config.h"
#include "check.h"

// Below 2 GiB, so that addresses fit the ABI's 32 bits; the programs are linked without PIE for the same
// reason. Pages that have not been grown into are not accessible, as in WebAssembly.
static uint8_t *memory;
static uint32_t pages;

int progress_reports;

static const uint8_t no_configuration[48];
const uint8_t *native_configuration = no_configuration;

const volatile uint8_t *config_segment(void) { return native_configuration; }

static void start_memory(void) {
    if (memory != NULL) return;
    memory = mmap(NULL, (size_t)NATIVE_PAGES * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory below 2 GiB");
    CHECK(platform_grow(NATIVE_FIRST_PAGES), "first pages");
}

uint32_t platform_heap_begin(void) {
    start_memory();
    return address_of(memory) + 8;  // not aligned, as __heap_base may be
}

uint64_t platform_heap_end(void) {
    start_memory();
    return (uint64_t)address_of(memory) + (uint64_t)pages * PAGE_BYTES;
}

bool platform_grow(uint32_t more) {
    if (more > NATIVE_PAGES - pages) return false;
    uint8_t *end = memory + (size_t)pages * PAGE_BYTES;
    if (more > 0 && mprotect(end, (size_t)more * PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) return false;
    pages += more;
    return true;
}

void weei_on_progress(uint32_t pointer, uint32_t bytes) {
    json report;
    CHECK(json_parse(at_address(pointer), bytes, &report), "%.*s", (int)bytes, (char *)at_address(pointer));
    progress_reports++;
}

enum { RED_ZONE = 16 };

uint32_t give(const void *content, uint32_t bytes) {
    uint32_t address = weei_alloc(bytes + RED_ZONE);
    CHECK(address != 0 && address % 16 == 0, "alloc(%u) = %u", bytes, address);
    memcpy(at_address(address), content, bytes);
    ASAN_POISON_MEMORY_REGION((uint8_t *)at_address(address) + bytes, RED_ZONE);
    return address;
}

void take_back(uint32_t address, uint32_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION((uint8_t *)at_address(address) + bytes, RED_ZONE);
    weei_free(address, bytes + RED_ZONE);
}

const char *call_bytes(operation *run, const char *request, uint32_t bytes) {
    static char answer[1 << 16];
    uint32_t address = give(request, bytes);
    const char *result = at_address(run(address, bytes));
    uint32_t length = weei_result_length();
    CHECK(length < sizeof answer, "result of %u bytes", length);
    memcpy(answer, result, length);
    answer[length] = '\0';
    take_back(address, bytes);

    json parsed;
    CHECK(json_parse(answer, length, &parsed) && parsed.text[0] == '{', "%s", answer);
    return answer;
}

const char *call(operation *run, const char *format, ...) {
    char request[4096];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(request, sizeof request, format, arguments);
    va_end(arguments);
    CHECK(bytes > 0 && bytes < (int)sizeof request, "request of %d bytes", bytes);
    return call_bytes(run, request, (uint32_t)bytes);
}
