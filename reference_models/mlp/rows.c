#include "rows.h"

#include "../lib/functions.h"

enum { ROWS_MAGIC = 0x574f5257, ROWS_VERSION = 1, HEADER_BYTES = 24, ALIGNMENT = 4 };

// 0 f32 and class, 1 f32 and values, 2 bytes and class, 3 bytes and values.
static uint32_t kind_of(const model *m) { return (m->bytes ? 2 : 0) + (m->regression ? 1 : 0); }

static uint64_t input_bytes(const model *m, uint64_t records) {
    uint64_t bytes = records * m->inputs * (m->bytes ? 1 : sizeof(float));
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint32_t target_columns(const model *m) { return m->regression ? m->outputs : 1; }

static bool check_header(const model *m, const weei_data *data, uint32_t *records) {
    if (data->length < HEADER_BYTES)
        return weei_fail("data has %g bytes, the header alone has %g", (double)data->length, (double)HEADER_BYTES);
    uint32_t word[6];
    for (int i = 0; i < 6; i++) word[i] = u32_at(data->bytes + 4 * i);
    if (word[0] != ROWS_MAGIC) return weei_fail("data does not begin with WROW");
    if (word[1] != ROWS_VERSION)
        return weei_fail("data has version %g, allowed: %g", (double)word[1], (double)ROWS_VERSION);
    if (word[2] < 1) return weei_fail("data has 0 records, allowed: 1 and more");
    if (word[3] != m->inputs)
        return weei_fail("data has %g inputs, this model has %g", (double)word[3], (double)m->inputs);
    if (word[4] != target_columns(m))
        return weei_fail("data has %g outputs, this model has %g", (double)word[4], (double)target_columns(m));
    if (word[5] != kind_of(m)) return weei_fail("data is of kind %g, this model reads %g", (double)word[5],
                                                (double)kind_of(m));
    *records = word[2];
    uint64_t expected = HEADER_BYTES + input_bytes(m, *records) + (uint64_t)*records * target_columns(m) * 4;
    return data->length == expected ||
           weei_fail("data has %g bytes, its header says %g", (double)data->length, (double)expected);
}

static bool check_finite(const uint8_t *values, uint32_t records, uint32_t columns, const char *what) {
    for (uint32_t r = 0; r < records; r++)
        for (uint32_t i = 0; i < columns; i++, values += sizeof(float))
            if (!is_finite(f32_at(values)))
                return weei_fail("record %g has a value that is not finite as %s %g", (double)r, what, (double)i);
    return true;
}

static bool check_classes(const uint8_t *classes, uint32_t records, uint32_t outputs) {
    for (uint32_t r = 0; r < records; r++) {
        uint32_t class = u32_at(classes + (size_t)r * 4);
        if (class >= outputs)
            return weei_fail("record %g is of class %g, allowed: 0 to %g", (double)r, (double)class,
                             (double)outputs - 1);
    }
    return true;
}

bool rows_open(json request, const model *m, rows *selected) {
    weei_data data;
    uint32_t records;
    if (!weei_read_data(request, ROWS_FORMAT, &data) || !check_header(m, &data, &records)) return false;
    const uint8_t *inputs = data.bytes + HEADER_BYTES, *targets = inputs + input_bytes(m, records);
    if (!m->bytes && !check_finite(inputs, records, m->inputs, "input")) return false;
    if (m->regression && !check_finite(targets, records, m->outputs, "target")) return false;
    if (!m->regression && !check_classes(targets, records, m->outputs)) return false;
    *selected = (rows){inputs, targets, 0, records};
    if (!data.ranged) return true;
    if (data.record_start + data.record_count > records)
        return weei_fail("data.recordStart + data.recordCount is %g, the file has %g records",
                         (double)(data.record_start + data.record_count), (double)records);
    selected->first = (uint32_t)data.record_start;
    selected->count = (uint32_t)data.record_count;
    return true;
}

float normalized_input(const model *m, uint32_t column, float value) {
    if (m->bytes) return value * (1.0f / 255);
    return (value - statistic_mean(m->input_statistics, column)) * statistic_scale(m->input_statistics, column);
}

static void load_inputs(const model *m, const uint8_t *record, float *input) {
    if (m->bytes) {
        for (uint32_t i = 0; i < m->inputs; i++) input[i] = normalized_input(m, i, record[i]);
    } else {
        for (uint32_t i = 0; i < m->inputs; i++) input[i] = normalized_input(m, i, f32_at(record + 4 * (size_t)i));
    }
}

static void load_values(const model *m, const uint8_t *record, float *values) {
    for (uint32_t o = 0; o < m->outputs; o++)
        values[o] = (f32_at(record + 4 * (size_t)o) - statistic_mean(m->output_statistics, o)) *
                    statistic_scale(m->output_statistics, o);
}

void rows_load(const model *m, const rows *r, const uint32_t *indices, uint32_t count, const batch *out) {
    size_t row_bytes = (size_t)m->inputs * (m->bytes ? 1 : sizeof(float)), target_bytes = 4 * (size_t)target_columns(m);
    for (uint32_t b = 0; b < count; b++) {
        const uint8_t *target = r->targets + indices[b] * target_bytes;
        load_inputs(m, r->inputs + indices[b] * row_bytes, out->input + (size_t)b * m->inputs);
        if (m->regression) load_values(m, target, out->values + (size_t)b * m->outputs);
        else out->labels[b] = u32_at(target);
    }
}
