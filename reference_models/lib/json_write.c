#include "json.h"
#include "number.h"

static void append(json_writer *w, char c) {
    if (w->bytes == w->capacity) w->overflow = true;
    else w->text[w->bytes++] = c;
}

static void append_text(json_writer *w, const char *text, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) append(w, text[i]);
}

static void begin_value(json_writer *w) {
    if (w->comma) append(w, ',');
    w->comma = true;
}

void json_start(json_writer *w, char *text, uint32_t capacity) {
    *w = (json_writer){.text = text, .capacity = capacity};
}

void json_open(json_writer *w, char bracket) {
    begin_value(w);
    append(w, bracket);
    w->comma = false;
}

void json_close(json_writer *w, char bracket) {
    append(w, bracket);
    w->comma = true;
}

void json_key(json_writer *w, const char *key) {
    json_string(w, key);
    append(w, ':');
    w->comma = false;
}

// Control characters become \u00XX; what is UTF-8 stays UTF-8.
void json_string(json_writer *w, const char *text) {
    static const char hex[] = "0123456789abcdef";
    begin_value(w);
    append(w, '"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') append(w, '\\');
        if (c >= 0x20) {
            append(w, *text);
        } else {
            append_text(w, "\\u00", 4);
            append(w, hex[c >> 4]);
            append(w, hex[c & 15]);
        }
    }
    append(w, '"');
}

void json_integer(json_writer *w, uint64_t value) {
    char text[NUMBER_TEXT];
    begin_value(w);
    append_text(w, text, integer_to_text(value, text));
}

void json_number(json_writer *w, double value) {
    char text[NUMBER_TEXT];
    begin_value(w);
    append_text(w, text, double_to_text(value, text));
}

void json_value(json_writer *w, const char *json_text) {
    begin_value(w);
    for (; *json_text != '\0'; json_text++) append(w, *json_text);
}
