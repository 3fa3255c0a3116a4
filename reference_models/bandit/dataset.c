#include "dataset.h"

static const uint8_t MAGIC[4] = {'B', 'N', 'D', 'T'};
enum { VERSION = 1 };

static uint32_t u32le(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static float f32le(const uint8_t *bytes) {
    uint32_t bits = u32le(bytes);
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t best_action(const uint8_t *record) { return u32le(record + FEATURES * 4); }

static bool check_header(const weei_data *data, uint32_t *count) {
    if (data->length < HEADER_BYTES)
        return weei_fail("data has %g bytes, the header alone has %g", (double)data->length, (double)HEADER_BYTES);
    for (int i = 0; i < 4; i++)
        if (data->bytes[i] != MAGIC[i]) return weei_fail("data does not begin with BNDT");
    uint32_t version = u32le(data->bytes + 4), record_bytes = u32le(data->bytes + 12);
    if (version != VERSION) return weei_fail("data has version %g, allowed: %g", (double)version, (double)VERSION);
    if (record_bytes != RECORD_BYTES)
        return weei_fail("data has records of %g bytes, allowed: %g", (double)record_bytes, (double)RECORD_BYTES);
    *count = u32le(data->bytes + 8);
    if (*count < 1 || *count > MOST_RECORDS)
        return weei_fail("data has %g records, allowed: 1 to %g", (double)*count, (double)MOST_RECORDS);
    uint32_t expected = HEADER_BYTES + *count * RECORD_BYTES;
    return data->length == expected ||
           weei_fail("data has %g bytes, its header says %g", (double)data->length, (double)expected);
}

static bool check_records(const uint8_t *records, uint32_t count) {
    for (uint32_t r = 0; r < count; r++, records += RECORD_BYTES) {
        for (int i = 0; i < FEATURES; i++) {
            float value = f32le(records + i * 4);
            if (!(value >= -1 && value <= 1)) return weei_fail("record %g has a feature outside -1 to 1", (double)r);
        }
        if (best_action(records) >= ACTIONS)
            return weei_fail("record %g has the best action %g, allowed: 0 to 2", (double)r,
                             (double)best_action(records));
    }
    return true;
}

bool dataset_open(json request, dataset *selected) {
    weei_data data;
    uint32_t count;
    if (!weei_read_data(request, BANDIT_FORMAT, &data) || !check_header(&data, &count)) return false;
    if (!check_records(data.bytes + HEADER_BYTES, count)) return false;
    *selected = (dataset){data.bytes + HEADER_BYTES, count};
    if (!data.ranged) return true;
    if (data.record_start + data.record_count > count)
        return weei_fail("data.recordStart + data.recordCount is %g, the file has %g records",
                         (double)(data.record_start + data.record_count), (double)count);
    selected->records += data.record_start * RECORD_BYTES;
    selected->count = (uint32_t)data.record_count;
    return true;
}

void dataset_load(const dataset *d, uint32_t first, uint32_t count, float *contexts, uint8_t *best_actions) {
    for (uint32_t r = 0; r < count; r++) {
        const uint8_t *record = d->records + (size_t)(first + r) * RECORD_BYTES;
        for (int i = 0; i < FEATURES; i++) contexts[r * FEATURES + i] = f32le(record + i * 4);
        best_actions[r] = (uint8_t)best_action(record);
    }
}
