#include "text.h"

#include <stdbool.h>

static const uint32_t REPLACEMENT = 0xFFFD;

static uint32_t write_utf8(uint32_t code, uint8_t *out) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    uint32_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = bytes - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3F));
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (uint8_t)(lead[bytes] | code);
    return bytes;
}

// Four hexadecimal digits, which the reader of JSON has checked.
static uint32_t hex4(const char *digits) {
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        char c = digits[i];
        code = code * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return code;
}

static bool is_low_surrogate(const char *p, const char *end) {
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' && (hex4(p + 2) & 0xFC00) == 0xDC00;
}

// `*p` stands behind the backslash and is moved behind the escape.
static uint32_t read_escape(const char **p, const char *end) {
    static const char letters[] = "bfnrt", codes[] = "\b\f\n\r\t";
    char c = *(*p)++;
    for (int i = 0; letters[i] != '\0'; i++)
        if (c == letters[i]) return (uint8_t)codes[i];
    if (c != 'u') return (uint8_t)c;  // a quote, a slash or a backslash
    uint32_t code = hex4(*p);
    *p += 4;
    if ((code & 0xF800) != 0xD800) return code;
    if ((code & 0xFC00) != 0xD800 || !is_low_surrogate(*p, end)) return REPLACEMENT;
    uint32_t low = hex4(*p + 2);
    *p += 6;
    return 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF));
}

uint32_t text_from_json(json value, uint8_t *out) {
    const char *p = value.text + 1, *end = value.text + value.bytes - 1;
    uint32_t bytes = 0;
    while (p < end) {
        char c = *p++;
        if (c == '\\') bytes += write_utf8(read_escape(&p, end), out + bytes);
        else out[bytes++] = (uint8_t)c;
    }
    return bytes;
}

// Bytes of the character at `text`, or of the longest beginning of one, which is then not `*whole`: as WHATWG decoders
// and Python count what one U+FFFD stands for.
static uint32_t scan_character(const uint8_t *text, uint32_t left, bool *whole) {
    uint8_t lead = text[0], low = 0x80, high = 0xBF;
    *whole = lead < 0x80;
    if (lead < 0xC2 || lead > 0xF4) return 1;
    uint32_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead == 0xE0) low = 0xA0;  // shorter forms exist
    if (lead == 0xED) high = 0x9F;  // surrogates
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
    for (uint32_t i = 1; i < bytes; i++, low = 0x80, high = 0xBF)
        if (i == left || text[i] < low || text[i] > high) return i;
    *whole = true;
    return bytes;
}

static uint32_t write_ascii(uint8_t c, char *out) {
    static const char hex[] = "0123456789abcdef";
    if (c >= 0x20 && c != '"' && c != '\\') {
        out[0] = (char)c;
        return 1;
    }
    out[0] = '\\';
    if (c >= 0x20) {
        out[1] = (char)c;
        return 2;
    }
    const char escape[] = {'u', '0', '0', hex[c >> 4], hex[c & 15]};
    for (int i = 0; i < 5; i++) out[1 + i] = escape[i];
    return 6;
}

uint32_t text_to_json(const uint8_t *text, uint32_t bytes, char *out) {
    uint32_t written = 0;
    for (uint32_t at = 0, length; at < bytes; at += length) {
        bool whole;
        length = scan_character(text + at, bytes - at, &whole);
        if (!whole || text[at] == 0) {
            written += write_utf8(REPLACEMENT, (uint8_t *)out + written);
        } else if (length == 1) {
            written += write_ascii(text[at], out + written);
        } else {
            for (uint32_t i = 0; i < length; i++) out[written++] = (char)text[at + i];
        }
    }
    return written;
}
