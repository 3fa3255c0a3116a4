#include "dataset.h"

enum { MAGIC = 0x4b4f5457, VERSION = 1, HEADER_BYTES = 16, RECORD_BYTES = 8 };  // "WTOK"

static uint32_t u16_at(const uint8_t *bytes) { return bytes[0] | (uint32_t)bytes[1] << 8; }

static bool check_header(const weei_data *data, const sizes *s, uint32_t *records) {
    if (data->length < HEADER_BYTES)
        return weei_fail("data has %g bytes, the header alone has %g", (double)data->length, (double)HEADER_BYTES);
    if (data->length % 4 != 0) return weei_fail("data has %g bytes, allowed: multiples of 4", (double)data->length);
    uint32_t version = u32_at(data->bytes + 4), vocabulary = u32_at(data->bytes + 12);
    if (u32_at(data->bytes) != MAGIC) return weei_fail("data does not begin with WTOK");
    if (version != VERSION) return weei_fail("data has version %g, allowed: %g", (double)version, (double)VERSION);
    if (vocabulary != (uint32_t)s->vocabulary)
        return weei_fail("data has a vocabulary of %g tokens, this model has %g", (double)vocabulary,
                         (double)s->vocabulary);
    *records = u32_at(data->bytes + 8);
    uint32_t most = (data->length - HEADER_BYTES) / RECORD_BYTES;
    return (*records >= 1 && *records <= most) ||
           weei_fail("data has %g records, allowed in %g bytes: 1 to %g", (double)*records, (double)data->length,
                     (double)most);
}

static bool check_records(const uint8_t *table, uint32_t records, uint32_t tokens, const sizes *s) {
    for (uint32_t r = 0; r < records; r++, table += RECORD_BYTES) {
        uint32_t first = u32_at(table), length = u16_at(table + 4), loss_from = u16_at(table + 6);
        if (length < 2 || length > (uint32_t)s->context + 1)
            return weei_fail("record %g has %g tokens, allowed: 2 to %g", (double)r, (double)length,
                             (double)s->context + 1);
        if (first > tokens || length > tokens - first)
            return weei_fail("record %g ends at token %g, the file has %g", (double)r, (double)first + length,
                             (double)tokens);
        if (loss_from >= length)
            return weei_fail("record %g has no target: its loss begins at %g of %g tokens", (double)r,
                             (double)loss_from, (double)length);
    }
    return true;
}

static bool check_tokens(const uint8_t *tokens, uint32_t count, const sizes *s) {
    for (uint32_t i = 0; i < count; i++)
        if (u16_at(tokens + 2 * (size_t)i) >= (uint32_t)s->vocabulary)
            return weei_fail("token %g is %g, allowed: 0 to %g", (double)i, (double)u16_at(tokens + 2 * (size_t)i),
                             (double)s->vocabulary - 1);
    return true;
}

bool dataset_open(json request, const sizes *s, dataset *selected) {
    weei_data data;
    uint32_t records;
    if (!weei_read_data(request, TOKENS_FORMAT, &data) || !check_header(&data, s, &records)) return false;
    const uint8_t *table = data.bytes + HEADER_BYTES, *tokens = table + (size_t)records * RECORD_BYTES;
    uint32_t count = (uint32_t)(data.bytes + data.length - tokens) / 2;
    if (!check_records(table, records, count, s) || !check_tokens(tokens, count, s)) return false;
    *selected = (dataset){.table = table, .tokens = tokens, .first = 0, .count = records};
    if (data.ranged) {
        uint64_t end = data.record_start + data.record_count;
        if (end > records)
            return weei_fail("data.recordStart + data.recordCount is %g, the file has %g records", (double)end,
                             (double)records);
        selected->first = (uint32_t)data.record_start;
        selected->count = (uint32_t)data.record_count;
    }
    for (uint32_t r = selected->first; r < selected->first + selected->count; r++)
        if (dataset_record(selected, r).first_target > 1) selected->partial = true;
    return true;
}

token_record dataset_record(const dataset *d, uint32_t index) {
    const uint8_t *entry = d->table + (size_t)index * RECORD_BYTES;
    uint32_t loss_from = u16_at(entry + 6);
    return (token_record){d->tokens + 2 * (size_t)u32_at(entry), u16_at(entry + 4), loss_from < 1 ? 1 : loss_from};
}

// Position p of a record reads token p and has token p + 1 as its target.
static void load_record(const token_record *record, tile *t) {
    uint32_t span_index = (uint32_t)t->span_count++, rows = record->length - 1;
    t->spans[span_index] = (span){.row = (uint32_t)t->rows, .rows = rows};
    for (uint32_t p = 0; p < rows; p++, t->rows++) {
        t->tokens[t->rows] = (uint16_t)u16_at(record->tokens + 2 * p);
        if (p + 1 < record->first_target) continue;
        t->target_row[t->target_count] = (uint32_t)t->rows;
        t->target_span[t->target_count] = span_index;
        t->target[t->target_count++] = (uint16_t)u16_at(record->tokens + 2 * p + 2);
    }
}

uint32_t dataset_load(const dataset *d, const sizes *s, const uint32_t *order, uint32_t at, uint32_t end, tile *t) {
    uint32_t begin = at, most = (uint32_t)tile_rows(s);
    t->rows = t->span_count = t->target_count = 0;
    for (; at < end; at++) {
        token_record record = dataset_record(d, order[at]);
        if ((uint32_t)t->rows + record.length - 1 > most) break;
        load_record(&record, t);
    }
    return at - begin;
}
