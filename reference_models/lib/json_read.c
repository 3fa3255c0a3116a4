#include "json.h"
#include "number.h"

enum { DEEPEST = 32 };  // bounds the recursion below, and with it the stack

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

static bool is_digit(const char *p, const char *end) { return p < end && *p >= '0' && *p <= '9'; }

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// The skip functions return the first character behind what they name, or NULL if it is malformed.

static const char *skip_escape(const char *p, const char *end) {
    if (p == end) return NULL;
    if (*p != 'u') {
        const char *allowed = "\"\\/bfnrt";
        while (*allowed != '\0' && *allowed != *p) allowed++;
        return *allowed == '\0' ? NULL : p + 1;
    }
    for (int i = 1; i <= 4; i++)
        if (end - p <= i || !is_hex(p[i])) return NULL;
    return p + 5;
}

static const char *skip_string(const char *p, const char *end) {
    p++;
    while (p != NULL && p < end) {
        unsigned char c = (unsigned char)*p++;
        if (c == '"') return p;
        if (c < 0x20) return NULL;
        if (c == '\\') p = skip_escape(p, end);
    }
    return NULL;
}

static const char *skip_digits(const char *p, const char *end) {
    if (!is_digit(p, end)) return NULL;
    while (is_digit(p, end)) p++;
    return p;
}

static const char *skip_number(const char *p, const char *end) {
    if (p < end && *p == '-') p++;
    if (p < end && *p == '0') p++;
    else if ((p = skip_digits(p, end)) == NULL) return NULL;
    if (p < end && *p == '.' && (p = skip_digits(p + 1, end)) == NULL) return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        p = skip_digits(p, end);
    }
    return p;
}

static const char *skip_word(const char *p, const char *end, const char *word) {
    for (; *word != '\0'; p++, word++)
        if (p == end || *p != *word) return NULL;
    return p;
}

static const char *skip_value(const char *p, const char *end, int depth);

// `p` stands at the opening bracket; objects have a key and a colon before each value.
static const char *skip_items(const char *p, const char *end, int depth, bool keyed) {
    char closing = keyed ? '}' : ']';
    p = skip_space(p + 1, end);
    if (p < end && *p == closing) return p + 1;
    while (p < end) {
        if (keyed) {
            if (*p != '"' || (p = skip_string(p, end)) == NULL) return NULL;
            p = skip_space(p, end);
            if (p == end || *p++ != ':') return NULL;
        }
        p = skip_value(skip_space(p, end), end, depth + 1);
        if (p == NULL) return NULL;
        p = skip_space(p, end);
        if (p == end) return NULL;
        if (*p == closing) return p + 1;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, end);
    }
    return NULL;
}

static const char *skip_value(const char *p, const char *end, int depth) {
    if (p == end) return NULL;
    switch (*p) {
        case '{': return depth == DEEPEST ? NULL : skip_items(p, end, depth, true);
        case '[': return depth == DEEPEST ? NULL : skip_items(p, end, depth, false);
        case '"': return skip_string(p, end);
        case 't': return skip_word(p, end, "true");
        case 'f': return skip_word(p, end, "false");
        case 'n': return skip_word(p, end, "null");
        default: return skip_number(p, end);
    }
}

bool json_parse(const char *text, uint32_t bytes, json *value) {
    const char *end = text + bytes;
    const char *start = skip_space(text, end);
    const char *stop = skip_value(start, end, 0);
    if (stop == NULL || skip_space(stop, end) != end) return false;
    *value = (json){start, (uint32_t)(stop - start)};
    return true;
}

// From here on the text is known to be well-formed, so skips cannot fail.

// The value that starts at or behind p.
static json value_at(const char *p, const char *end) {
    p = skip_space(p, end);
    return (json){p, (uint32_t)(skip_value(p, end, 0) - p)};
}

static bool equals(const char *p, const char *end, const char *text) {
    while (p < end && *text != '\0' && *p == *text) p++, text++;
    return p == end && *text == '\0';
}

bool json_member(json object, const char *key, json *value) {
    if (object.text[0] != '{') return false;
    const char *end = object.text + object.bytes;
    const char *p = skip_space(object.text + 1, end);
    while (*p == '"') {
        const char *name = p + 1;
        p = skip_string(p, end);
        bool found = equals(name, p - 1, key);
        *value = value_at(skip_space(p, end) + 1, end);
        if (found) return true;
        p = skip_space(value->text + value->bytes, end);
        if (*p == ',') p = skip_space(p + 1, end);
    }
    return false;
}

bool json_next(json array, json *value) {
    if (array.text[0] != '[') return false;
    const char *end = array.text + array.bytes;
    const char *p = skip_space(value->text == NULL ? array.text + 1 : value->text + value->bytes, end);
    if (*p == ',') p = skip_space(p + 1, end);
    if (*p == ']') return false;
    *value = value_at(p, end);
    return true;
}

bool json_is_text(json value, const char *text) {
    return value.text[0] == '"' && equals(value.text + 1, value.text + value.bytes - 1, text);
}

// Digits as mantissa * 10^exponent. Behind the 17th significant digit only zeros may follow (JavaScript
// writes 1e20 as 21 digits), so that the mantissa stays exact in 64 bits.
typedef struct {
    uint64_t mantissa;
    int exponent;
} decimal;

static bool append_digit(decimal *d, char digit, bool fraction) {
    if (d->mantissa < 10000000000000000u) {
        d->mantissa = d->mantissa * 10 + (uint64_t)(digit - '0');
        d->exponent -= fraction;
        return true;
    }
    d->exponent += !fraction;
    return digit == '0';
}

bool json_to_double(json value, double *number) {
    const char *p = value.text, *end = p + value.bytes;
    bool negative = *p == '-';
    if (negative) p++;
    if (!is_digit(p, end) || value.bytes > 400) return false;  // so few characters keep `exponent` small

    decimal d = {0, 0};
    for (; is_digit(p, end); p++)
        if (!append_digit(&d, *p, false)) return false;
    if (p < end && *p == '.')
        for (p++; is_digit(p, end); p++)
            if (!append_digit(&d, *p, true)) return false;
    if (p < end) {  // e or E
        p++;
        bool below = *p == '-';
        if (*p == '-' || *p == '+') p++;
        int exponent = 0;
        for (; p < end; p++)
            if (exponent < 10000) exponent = exponent * 10 + (*p - '0');
        d.exponent += below ? -exponent : exponent;
    }
    if (!decimal_to_double(d.mantissa, d.exponent, number)) return false;
    if (negative) *number = -*number;
    return true;
}

bool json_to_u64(json value, uint64_t *number) {
    const char *p = value.text + 1, *end = value.text + value.bytes - 1;
    if (value.text[0] != '"' || !is_digit(p, end) || (*p == '0' && end - p > 1)) return false;
    *number = 0;
    for (; p < end; p++) {
        if (!is_digit(p, end)) return false;
        uint64_t digit = (uint64_t)(*p - '0');
        if (*number > (UINT64_MAX - digit) / 10) return false;
        *number = *number * 10 + digit;
    }
    return true;
}
