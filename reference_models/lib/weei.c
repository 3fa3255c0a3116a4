#include "weei.h"

#include <stdarg.h>

#include "number.h"

enum {
    RESULT_BYTES = 16384,  // the longest result is ModelInfo
    PROGRESS_BYTES = 1024,
    MESSAGE_BYTES = 512,
    MOST_EPOCHS = 100000,
    MOST_BATCH = 1 << 20,
};
static const uint64_t MOST_UNIT = (uint64_t)1 << 53;  // as far as integers of JSON go

static char result_text[RESULT_BYTES];
static json_writer result;
static char error_message[MESSAGE_BYTES];  // empty = no error yet

static char progress_text[PROGRESS_BYTES];
static json_writer progress;

WEEI_EXPORT("resultLength") uint32_t weei_result_length(void) { return result.bytes; }

static bool run_request(uint32_t pointer, uint32_t bytes, bool (*operation)(json, json_writer *)) {
    json request;
    if (!weei_is_live(pointer, bytes)) return weei_fail("the request is not in memory that alloc gave");
    if (!json_parse(at_address(pointer), bytes, &request) || request.text[0] != '{')
        return weei_fail("the request is not one JSON object");
    if (!operation(request, &result)) return false;
    return !result.overflow || weei_fail("the result is longer than %g bytes", (double)RESULT_BYTES);
}

uint32_t weei_run(uint32_t pointer, uint32_t bytes, bool (*operation)(json request, json_writer *result)) {
    error_message[0] = '\0';
    json_start(&result, result_text, RESULT_BYTES);
    if (!run_request(pointer, bytes, operation)) {
        json_start(&result, result_text, RESULT_BYTES);
        json_open(&result, '{');
        json_key(&result, "error");
        json_string(&result, error_message);
        json_close(&result, '}');
    }
    return address_of(result_text);
}

bool weei_fail(const char *format, ...) {
    if (error_message[0] != '\0') return false;
    va_list arguments;
    va_start(arguments, format);
    uint32_t length = 0;
    for (const char *p = format; *p != '\0'; p++) {
        char number[NUMBER_TEXT], plain[2] = {*p, '\0'};
        const char *piece = plain;
        if (*p == '%' && *++p == 's') {
            piece = va_arg(arguments, const char *);
        } else if (*p == 'g' && p[-1] == '%') {
            number[double_to_text(va_arg(arguments, double), number)] = '\0';
            piece = number;
        }
        while (*piece != '\0' && length < MESSAGE_BYTES - 1) error_message[length++] = *piece++;
    }
    va_end(arguments);
    error_message[length] = '\0';
    return false;
}

static const char *key_of(const char *path) {
    const char *key = path;
    for (; *path != '\0'; path++)
        if (*path == '.') key = path + 1;
    return key;
}

static bool has(json parent, const char *path) {
    json value;
    return json_member(parent, key_of(path), &value);
}

bool weei_object(json parent, const char *path, json *value) {
    if (!json_member(parent, key_of(path), value)) return weei_fail("%s is missing", path);
    return value->text[0] == '{' || weei_fail("%s is not an object", path);
}

bool weei_number(json parent, const char *path, double minimum, double maximum, double *value) {
    json text;
    if (!json_member(parent, key_of(path), &text)) return weei_fail("%s is missing", path);
    if (!json_to_double(text, value)) return weei_fail("%s is not a number that can be read exactly", path);
    if (*value >= minimum && *value <= maximum) return true;
    return weei_fail("%s is %g, allowed: %g to %g", path, *value, minimum, maximum);
}

bool weei_integer(json parent, const char *path, uint64_t minimum, uint64_t maximum, uint64_t *value) {
    double number;
    if (!weei_number(parent, path, (double)minimum, (double)maximum, &number)) return false;
    *value = (uint64_t)number;
    return (double)*value == number || weei_fail("%s is %g, allowed: integers", path, number);
}

bool weei_seed(json request, uint64_t *seed) {
    json text;
    if (!json_member(request, "seed", &text)) return weei_fail("seed is missing");
    return json_to_u64(text, seed) || weei_fail("seed is not an unsigned 64-bit integer in a decimal string");
}

bool weei_seed_at(json parent, const char *path, uint64_t *seed) {
    json text;
    if (!json_member(parent, key_of(path), &text)) return weei_fail("%s is missing", path);
    return json_to_u64(text, seed) || weei_fail("%s is not an unsigned 64-bit integer in a decimal string", path);
}

// An integer of 32 bits whose path is not known at compile time: `<path>.<key>`.
static bool read_u32(json object, const char *path, const char *key, uint64_t *value) {
    char whole[MESSAGE_BYTES];
    uint32_t length = 0;
    for (; *path != '\0' && length < MESSAGE_BYTES / 2; path++) whole[length++] = *path;
    for (whole[length++] = '.'; *key != '\0'; key++) whole[length++] = *key;
    whole[length] = '\0';
    return weei_integer(object, whole, 0, UINT32_MAX, value);
}

bool weei_read_buffer(json parent, const char *path, weei_buffer *buffer) {
    json object;
    uint64_t pointer, bytes;
    if (!weei_object(parent, path, &object)) return false;
    if (!read_u32(object, path, "pointer", &pointer) || !read_u32(object, path, "bytes", &bytes)) return false;
    if (!weei_is_live(pointer, bytes)) return weei_fail("%s is not in memory that alloc gave", path);
    if (pointer % 16 != 0) return weei_fail("%s.pointer is not 16-byte aligned", path);
    *buffer = (weei_buffer){(uint32_t)pointer, (uint32_t)bytes};
    return true;
}

void weei_write_buffer(json_writer *w, const char *key, const void *data, uint32_t bytes) {
    json_key(w, key);
    json_open(w, '{');
    json_key(w, "pointer");
    json_integer(w, address_of(data));
    json_key(w, "bytes");
    json_integer(w, bytes);
    json_close(w, '}');
}

bool weei_read_data(json request, const char *format, weei_data *data) {
    json object, name;
    weei_buffer buffer;
    if (!weei_read_buffer(request, "data", &buffer) || !weei_object(request, "data", &object)) return false;
    if (!json_member(object, "format", &name) || !json_is_text(name, format))
        return weei_fail("data.format is not %s", format);

    *data = (weei_data){.bytes = at_address(buffer.address), .length = buffer.bytes};
    data->ranged = has(object, "recordStart") || has(object, "recordCount");
    if (!data->ranged) return true;
    return weei_integer(object, "data.recordStart", 0, UINT32_MAX, &data->record_start) &&
           weei_integer(object, "data.recordCount", 1, UINT32_MAX, &data->record_count);
}

bool weei_read_experience(json request, uint32_t most_units, weei_experience *experience) {
    json object;
    uint64_t count;
    if (!weei_object(request, "experience", &object)) return false;
    if (!weei_seed_at(object, "experience.seed", &experience->seed)) return false;
    if (!weei_integer(object, "experience.unitStart", 0, MOST_UNIT, &experience->unit_start)) return false;
    if (!weei_integer(object, "experience.unitCount", 1, most_units, &count)) return false;
    experience->unit_count = (uint32_t)count;
    return true;
}

bool weei_read_settings(json request, weei_settings *settings) {
    json object;
    uint64_t epochs, batch;
    if (!weei_object(request, "settings", &object)) return false;
    if (!weei_integer(object, "settings.localEpochs", 1, MOST_EPOCHS, &epochs)) return false;
    if (!weei_integer(object, "settings.batchSize", 1, MOST_BATCH, &batch)) return false;
    settings->local_epochs = (uint32_t)epochs;
    settings->batch_size = (uint32_t)batch;
    if (!has(object, "learningRate")) return true;
    return weei_number(object, "settings.learningRate", 1e-9, 100, &settings->learning_rate);
}

json_writer *weei_begin_progress(uint64_t processed, uint64_t total, uint64_t optimizer_steps) {
    json_start(&progress, progress_text, PROGRESS_BYTES);
    json_open(&progress, '{');
    json_key(&progress, "processedExamples");
    json_integer(&progress, processed);
    json_key(&progress, "totalExamples");
    json_integer(&progress, total);
    json_key(&progress, "optimizerSteps");
    json_integer(&progress, optimizer_steps);
    json_key(&progress, "metrics");
    json_open(&progress, '{');
    return &progress;
}

void weei_send_progress(void) {
    json_close(&progress, '}');
    json_close(&progress, '}');
    if (!progress.overflow) weei_on_progress(address_of(progress_text), progress.bytes);
}
