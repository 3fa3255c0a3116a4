#include "dataset.h"

static const uint8_t MAGIC[4] = {'D', 'G', 'U', '8'};
enum { VERSION = 1 };

static uint32_t u32le(const uint8_t *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool check_header(const weei_data *data, uint32_t *count) {
    if (data->length < HEADER_BYTES)
        return weei_fail("data has %g bytes, the header alone has %g", (double)data->length, (double)HEADER_BYTES);
    for (int i = 0; i < 4; i++)
        if (data->bytes[i] != MAGIC[i]) return weei_fail("data does not begin with DGU8");
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
        for (int i = 0; i < PIXELS; i++)
            if (records[i] > BRIGHTEST)
                return weei_fail("record %g has a pixel of %g, allowed: 0 to %g", (double)r, (double)records[i],
                                 (double)BRIGHTEST);
        if (records[PIXELS] >= DIGITS)
            return weei_fail("record %g has the label %g, allowed: 0 to 9", (double)r, (double)records[PIXELS]);
    }
    return true;
}

bool dataset_open(json request, dataset *selected) {
    weei_data data;
    uint32_t count;
    if (!weei_read_data(request, DIGITS_FORMAT, &data) || !check_header(&data, &count)) return false;
    if (!check_records(data.bytes + HEADER_BYTES, count)) return false;
    *selected = (dataset){data.bytes + HEADER_BYTES, 0, count};
    if (!data.ranged) return true;
    if (data.record_start + data.record_count > count)
        return weei_fail("data.recordStart + data.recordCount is %g, the file has %g records",
                         (double)(data.record_start + data.record_count), (double)count);
    selected->first = (uint32_t)data.record_start;
    selected->count = (uint32_t)data.record_count;
    return true;
}

void dataset_load(const dataset *d, const uint32_t *indices, uint32_t count, float *input, uint8_t *labels) {
    for (uint32_t r = 0; r < count; r++) {
        const uint8_t *record = d->records + (size_t)indices[r] * RECORD_BYTES;
        for (int i = 0; i < PIXELS; i++) input[r * PIXELS + i] = record[i] * (1.0f / BRIGHTEST);
        labels[r] = record[PIXELS];
    }
}
