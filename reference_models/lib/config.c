#include "config.h"

#include "functions.h"

enum { CONFIG_MAGIC = 0x47464357, CONFIG_VERSION = 1, HEADER_WORDS = 12, HEADER_BYTES = 4 * HEADER_WORDS };

json_writer *config_result;

uint32_t u32_at(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

float f32_at(const uint8_t *bytes) {
    union {
        uint32_t bits;
        float value;
    } f = {.bits = u32_at(bytes)};
    return f.value;
}

// Of size `count` * `size` bytes, behind the header and within the segment of `bytes` bytes.
static bool check_part(const char *name, uint32_t offset, uint32_t count, uint32_t size, uint32_t bytes) {
    if (offset >= HEADER_BYTES && offset % 8 == 0 && offset + (uint64_t)count * size <= bytes) return true;
    return weei_fail("The configuration's %s at byte %g, with %g entries, do not lie in its %g bytes.", name,
                     (double)offset, (double)count, (double)bytes);
}

static bool check_contents(const config *c) {
    json info;
    if (c->info_bytes > CONFIG_INFO_BYTES)
        return weei_fail("The configuration's ModelInfo has %g bytes, allowed: %g.", (double)c->info_bytes,
                         (double)CONFIG_INFO_BYTES);
    if (!json_parse((const char *)c->info, c->info_bytes, &info) || info.text[0] != '{')
        return weei_fail("The configuration's ModelInfo is not one JSON object.");
    for (uint32_t i = 0; i < c->values_count; i++)
        if (!is_finite(c->values[i])) return weei_fail("The configuration's value %g is not finite.", (double)i);
    return true;
}

// The optimizer must not know what lies at a fixed address, nor that nothing does: the header is read as volatile.
bool config_load(config *out, uint32_t kind) {
    const volatile uint8_t *segment = config_segment();
    uint32_t word[HEADER_WORDS];
    for (int i = 0; i < HEADER_WORDS; i++) {
        uint8_t bytes[4];
        for (int b = 0; b < 4; b++) bytes[b] = segment[4 * i + b];
        word[i] = u32_at(bytes);
    }
    uint32_t bytes = word[2];
    if (word[0] != CONFIG_MAGIC) return weei_fail("This module has no configuration.");
    if (word[1] != CONFIG_VERSION)
        return weei_fail("The configuration has version %g, allowed: %g.", (double)word[1], (double)CONFIG_VERSION);
    if (bytes < HEADER_BYTES || bytes > CONFIG_BYTES)
        return weei_fail("The configuration has %g bytes, allowed: %g to %g.", (double)bytes, (double)HEADER_BYTES,
                         (double)CONFIG_BYTES);
    if (word[3] != kind)
        return weei_fail("The configuration is of kind %g, this module reads kind %g.", (double)word[3], (double)kind);
    if (!check_part("ModelInfo bytes", word[4], word[5], 1, bytes)) return false;
    if (!check_part("values", word[6], word[7], sizeof(double), bytes)) return false;
    if (!check_part("vocabulary bytes", word[8], word[9], 1, bytes)) return false;

    const uint8_t *base = (const uint8_t *)segment;
    *out = (config){base + word[4], word[5], (const double *)(const void *)(base + word[6]), word[7], base + word[8],
                    word[9]};
    return check_contents(out);
}

bool config_number(const config *c, uint32_t index, const char *name, double minimum, double maximum, double *value) {
    if (index >= c->values_count)
        return weei_fail("The configuration has %g values, %s is missing.", (double)c->values_count, name);
    *value = c->values[index];
    if (*value >= minimum && *value <= maximum) return true;
    return weei_fail("The configuration's %s is %g, allowed: %g to %g.", name, *value, minimum, maximum);
}

bool config_integer(const config *c, uint32_t index, const char *name, uint32_t minimum, uint32_t maximum,
                    uint32_t *value) {
    double number;
    if (!config_number(c, index, name, minimum, maximum, &number)) return false;
    *value = (uint32_t)number;
    return *value == number || weei_fail("The configuration's %s is %g, allowed: integers.", name, number);
}

bool config_write_info(const config *c, json_writer *result) {
    *result = (json_writer){.text = (char *)(uintptr_t)c->info, .capacity = c->info_bytes, .bytes = c->info_bytes};
    return true;
}
