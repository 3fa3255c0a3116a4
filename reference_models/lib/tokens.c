#include "tokens.h"

#include "config.h"

enum { HEADER_BYTES = 16, TOKEN_BYTES = 8, MERGE_BYTES = 12, SPECIAL_BYTES = 4, KINDS = 3 };
static const uint32_t NONE = UINT32_MAX;

const uint8_t *vocabulary_text(const vocabulary *v, uint32_t token, uint32_t *bytes) {
    const uint8_t *entry = v->token_table + (size_t)token * TOKEN_BYTES;
    *bytes = u32_at(entry + 4);
    return v->blob + u32_at(entry);
}

static uint32_t special_at(const vocabulary *v, uint32_t i) {
    return u32_at(v->special_table + (size_t)i * SPECIAL_BYTES);
}

typedef struct {
    uint32_t left, right, result;
} merge;

static merge merge_at(const vocabulary *v, uint32_t rank) {
    const uint8_t *entry = v->merge_table + (size_t)rank * MERGE_BYTES;
    return (merge){u32_at(entry), u32_at(entry + 4), u32_at(entry + 8)};
}

static bool check_entries(const vocabulary *v, uint64_t text_begin, uint32_t bytes) {
    for (uint32_t i = 0; i < v->token_count; i++) {
        uint32_t length;
        uint64_t offset = (uint64_t)(vocabulary_text(v, i, &length) - v->blob);
        if (offset < text_begin || offset > bytes || length > bytes - offset)
            return weei_fail("The vocabulary's token %g does not lie in its text.", (double)i);
    }
    for (uint32_t i = 0; i < v->merge_count; i++) {
        merge m = merge_at(v, i);
        if (m.left >= v->token_count || m.right >= v->token_count || m.result >= v->token_count)
            return weei_fail("The vocabulary's merge %g names a token that is not there.", (double)i);
    }
    for (uint32_t i = 0; i < v->special_count; i++) {
        uint32_t length, id = special_at(v, i);
        if (id >= v->token_count) return weei_fail("The vocabulary's special %g is not there.", (double)i);
        if (vocabulary_text(v, id, &length), length == 0)
            return weei_fail("The vocabulary's special %g is empty.", (double)i);
    }
    return true;
}

bool vocabulary_open(vocabulary *v, const uint8_t *blob, uint32_t bytes, uint32_t tokens) {
    if (bytes < HEADER_BYTES) return weei_fail("The configuration has no vocabulary.");
    uint32_t kind = u32_at(blob);
    *v = (vocabulary){.blob = blob,
                      .token_count = u32_at(blob + 4),
                      .merge_count = u32_at(blob + 8),
                      .special_count = u32_at(blob + 12)};
    if (kind >= KINDS) return weei_fail("The vocabulary is of kind %g, allowed: 0 to %g.", (double)kind, KINDS - 1.0);
    if (v->token_count != tokens)
        return weei_fail("The vocabulary has %g tokens, the model has %g.", (double)v->token_count, (double)tokens);
    uint64_t merges = HEADER_BYTES + (uint64_t)v->token_count * TOKEN_BYTES;
    uint64_t specials = merges + (uint64_t)v->merge_count * MERGE_BYTES;
    uint64_t text = specials + (uint64_t)v->special_count * SPECIAL_BYTES;
    if (text > bytes)
        return weei_fail("The vocabulary has %g bytes, its tables alone %g.", (double)bytes, (double)text);
    v->token_table = blob + HEADER_BYTES;
    v->merge_table = blob + merges;
    v->special_table = blob + specials;
    return check_entries(v, text, bytes);
}

// Open addressing: numbers that are found by what they stand for. Half of the places at least stay empty.
typedef struct {
    uint32_t *place;  // (mask + 1), NONE = empty
    uint32_t mask;
} index_table;

static uint32_t places_for(uint32_t entries) {
    uint32_t places = 8;
    while (places < 2 * entries) places *= 2;
    return places;
}

static uint32_t mixed(uint32_t hash, uint32_t value) {
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

typedef struct {
    const vocabulary *v;
    index_table base, merges;  // tokens by text, ranks by pair
    uint32_t *id, *rank;       // (text bytes) each: the tokens so far, the rank of each with the next one or NONE
    uint8_t *result;           // (token_count), whether a merge makes it
    uint32_t count;
} encoder;

static uint32_t text_hash(const uint8_t *text, uint32_t bytes) {
    uint32_t hash = bytes;
    for (uint32_t i = 0; i < bytes; i++) hash = mixed(hash, text[i]);
    return hash;
}

static bool same(const uint8_t *a, const uint8_t *b, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) return false;
    return true;
}

// Where the token with this text is, or the empty place where it would be.
static uint32_t *base_place(const encoder *e, const uint8_t *text, uint32_t bytes) {
    for (uint32_t at = text_hash(text, bytes);; at++) {
        uint32_t *place = &e->base.place[at & e->base.mask], length;
        if (*place == NONE) return place;
        const uint8_t *own = vocabulary_text(e->v, *place, &length);
        if (length == bytes && same(own, text, bytes)) return place;
    }
}

static uint32_t *merge_place(const encoder *e, uint32_t left, uint32_t right) {
    for (uint32_t at = mixed(mixed(0, left), right);; at++) {
        uint32_t *place = &e->merges.place[at & e->merges.mask];
        if (*place == NONE) return place;
        merge m = merge_at(e->v, *place);
        if (m.left == left && m.right == right) return place;
    }
}

static uint64_t aligned(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

uint64_t vocabulary_scratch(const vocabulary *v, uint32_t text_bytes) {
    return aligned(4 * (uint64_t)places_for(v->token_count)) + aligned(4 * (uint64_t)places_for(v->merge_count)) +
           2 * aligned(4 * (uint64_t)text_bytes) + aligned(v->token_count);
}

static uint32_t *take_numbers(uint8_t **scratch, uint32_t count) {
    uint32_t *at = (uint32_t *)(void *)*scratch;
    *scratch += aligned(4 * (uint64_t)count);
    return at;
}

static index_table start_table(uint8_t **scratch, uint32_t entries) {
    uint32_t places = places_for(entries);
    index_table table = {take_numbers(scratch, places), places - 1};
    for (uint32_t i = 0; i < places; i++) table.place[i] = NONE;
    return table;
}

// Of two tokens with the same text, and of two merges of the same pair, the first counts.
static encoder start_encoder(const vocabulary *v, uint32_t text_bytes, uint8_t *scratch) {
    encoder e = {.v = v};
    e.base = start_table(&scratch, v->token_count);
    e.merges = start_table(&scratch, v->merge_count);
    e.id = take_numbers(&scratch, text_bytes);
    e.rank = take_numbers(&scratch, text_bytes);
    e.result = scratch;
    for (uint32_t i = 0; i < v->token_count; i++) e.result[i] = 0;
    for (uint32_t i = 0; i < v->special_count; i++) e.result[special_at(v, i)] = 1;
    for (uint32_t rank = 0; rank < v->merge_count; rank++) {
        merge m = merge_at(v, rank);
        uint32_t *place = merge_place(&e, m.left, m.right);
        if (*place == NONE) *place = rank;
        e.result[m.result] = 1;
    }
    for (uint32_t i = 0; i < v->token_count; i++) {
        uint32_t bytes;
        const uint8_t *text = vocabulary_text(v, i, &bytes);
        uint32_t *place = base_place(&e, text, bytes);
        if (!e.result[i] && bytes > 0 && *place == NONE) *place = i;
    }
    return e;
}

static uint32_t special_here(const vocabulary *v, const uint8_t *text, uint32_t left, uint32_t *bytes) {
    uint32_t best = NONE, best_bytes = 0;
    for (uint32_t i = 0; i < v->special_count; i++) {
        uint32_t length, id = special_at(v, i);
        const uint8_t *own = vocabulary_text(v, id, &length);
        if (length > best_bytes && length <= left && same(own, text, length)) {
            best = id;
            best_bytes = length;
        }
    }
    *bytes = best_bytes;
    return best;
}

// Bytes of the UTF-8 character that begins here, at most those that are left.
static uint32_t character_bytes(const uint8_t *text, uint32_t left) {
    uint32_t bytes = text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : text[0] >= 0xC0 ? 2 : 1;
    return bytes < left ? bytes : left;
}

static bool refuse_character(const uint8_t *text, uint32_t bytes) {
    char shown[8] = {0};
    for (uint32_t i = 0; i < bytes; i++) shown[i] = (char)text[i];
    return weei_fail("input.text holds \"%s\", for which the vocabulary has no token", shown);
}

static bool add_character(encoder *e, const uint8_t *text, uint32_t bytes) {
    uint32_t whole = *base_place(e, text, bytes);
    if (whole != NONE) {
        e->id[e->count++] = whole;
        return true;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t single = *base_place(e, text + i, 1);
        if (single == NONE) return refuse_character(text, bytes);
        e->id[e->count++] = single;
    }
    return true;
}

static uint32_t rank_of(const encoder *e, uint32_t i, uint32_t end) {
    return i + 1 < end ? *merge_place(e, e->id[i], e->id[i + 1]) : NONE;
}

// Merges within the tokens from `begin` on.
static void merge_from(encoder *e, uint32_t begin) {
    uint32_t *id = e->id, *rank = e->rank, end = e->count;
    for (uint32_t i = begin; i < end; i++) rank[i] = rank_of(e, i, end);
    for (;;) {
        uint32_t lowest = NONE, to = begin;
        for (uint32_t i = begin; i < end; i++) lowest = rank[i] < lowest ? rank[i] : lowest;
        if (lowest == NONE) break;
        uint32_t result = merge_at(e->v, lowest).result;
        for (uint32_t i = begin; i < end; to++) {
            bool joined = rank[i] == lowest;
            uint32_t kept = rank[i];
            id[to] = joined ? result : id[i];
            rank[to] = kept;
            i += joined ? 2 : 1;
        }
        end = to;
        // Ranks beside a result have changed, and where a pair of equals was joined, so may the one behind it.
        for (uint32_t i = begin; i < end; i++) {
            bool beside = id[i] == result || (i + 1 < end && id[i + 1] == result) || rank[i] == lowest;
            if (beside || i + 1 == end) rank[i] = rank_of(e, i, end);
        }
    }
    e->count = end;
}

const uint32_t *vocabulary_encode(const vocabulary *v, const uint8_t *text, uint32_t bytes, void *scratch,
                                  uint32_t *count) {
    encoder e = start_encoder(v, bytes, scratch);
    uint32_t begin = 0;  // of the tokens behind the last special
    for (uint32_t at = 0, length; at < bytes; at += length) {
        uint32_t special = special_here(v, text + at, bytes - at, &length);
        if (special != NONE) {
            merge_from(&e, begin);
            e.id[e.count++] = special;
            begin = e.count;
            continue;
        }
        length = character_bytes(text + at, bytes - at);
        if (!add_character(&e, text + at, length)) return NULL;
    }
    merge_from(&e, begin);
    *count = e.count;
    return e.id;
}
