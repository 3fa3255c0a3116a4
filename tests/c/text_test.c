// JSON, numbers and functions against the C library.
#include <math.h>
#include <string.h>

#include "../../reference_models/lib/functions.h"
#include "../../reference_models/lib/json.h"
#include "../../reference_models/lib/number.h"
#include "../../reference_models/lib/rng.h"
#include "check.h"

// A copy without a terminator, so that AddressSanitizer sees a read past the end.
static bool parses(const char *text) {
    size_t bytes = strlen(text);
    char *copy = malloc(bytes + 1);
    memcpy(copy + 1, text, bytes);
    json value;
    bool valid = json_parse(copy + 1, (uint32_t)bytes, &value);
    free(copy);
    return valid;
}

static void test_accepts_json_and_nothing_else(void) {
    const char *good[] = {"{}", " [ ] ", "[1,-0.5e+10,0]", "{\"a\":{\"b\":[true,false,null]}}", "\"\\u00e9\\n\"",
                          "0",  "\"\xc3\xa9\""};
    const char *bad[] = {"",      " ",         "{",       "[",          "[1,]",     "[1 2]",  "[1]]", "{\"a\"}",
                         "{\"a\":", "{\"a\" 1}", "{a:1}",   "{\"a\":1,}", "{} {}",    "01",     "-",    "1.",
                         ".5",    "1e",        "+1",      "NaN",        "nul",      "truex",  "\"a",  "\"\\",
                         "\"\n\"", "\"\\x\"",   "\"\\u12", "\"\\u12\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK(parses(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!parses(bad[i]), "%s", bad[i]);
}

static void test_stops_at_32_levels(void) {
    char text[80];
    for (int levels = 32; levels <= 33; levels++) {
        memset(text, '[', (size_t)levels);
        memset(text + levels, ']', (size_t)levels);
        text[2 * levels] = '\0';
        CHECK(parses(text) == (levels == 32), "%d levels", levels);
    }
}

static json parsed(const char *text) {
    json value;
    CHECK(json_parse(text, (uint32_t)strlen(text), &value), "%s", text);
    return value;
}

static void test_finds_members_and_elements(void) {
    json object = parsed("{ \"x\" : [ 1 , [2] ], \"xy\": {\"k\":\"v\"} , \"k\" : 3 }"), value, item = {0};
    CHECK(json_member(object, "xy", &value) && value.bytes == 9, "xy");
    CHECK(json_member(object, "k", &value) && value.text[0] == '3', "the outer k");
    CHECK(!json_member(object, "v", &value) && !json_member(object, "", &value), "no such key");
    CHECK(!json_member(parsed("{}"), "x", &value) && !json_member(parsed("[]"), "x", &value), "nothing inside");
    CHECK(json_member(object, "x", &value), "x");
    CHECK(json_next(value, &item) && item.text[0] == '1' && json_next(value, &item) && item.text[0] == '[', "items");
    CHECK(!json_next(value, &item), "past the last");
    CHECK(json_is_text(parsed("\"abc\""), "abc") && !json_is_text(parsed("\"abc\""), "ab"), "text");
}

// Against strtod, which glibc rounds correctly. The first are the hard cases: halfway between two doubles.
static void test_reads_numbers_like_strtod(void) {
    const char *hard[] = {"9007199254740993", "9007199254740995", "0.1",    "1e23",   "8.5e22", "1e22",
                          "0.00001",          "-0.5",             "5e-290", "1e-290", "9e289",  "100000000000000000000",
                          "123456789012345678901e0"};
    char text[64];
    rng r = rng_start(1, 0);
    for (int i = 0; i < 20000; i++) {
        if (i < (int)(sizeof hard / sizeof *hard)) snprintf(text, sizeof text, "%s", hard[i]);
        else
            snprintf(text, sizeof text, "%u.%015llue%d", rng_below(&r, 100),
                     (unsigned long long)(rng_next(&r) % 1000000000000000u), (int)rng_below(&r, 560) - 280);
        double value;
        bool too_long = strncmp(text, "1234567890123", 13) == 0;
        CHECK(json_to_double(parsed(text), &value) == !too_long, "%s", text);
        CHECK(too_long || value == strtod(text, NULL), "%s read as %.17g", text, value);
    }
}

static void test_refuses_numbers_it_cannot_hold(void) {
    const char *bad[] = {"1e400", "1e-400", "1e99999999999", "-1e290", "0.123456789012345678", "\"1\"", "true", "[1]"};
    double value;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!json_to_double(parsed(bad[i]), &value), "%s", bad[i]);
    CHECK(json_to_double(parsed("0e99999"), &value) && value == 0, "zero has any exponent");
}

static void test_reads_seeds_strictly(void) {
    uint64_t value;
    CHECK(json_to_u64(parsed("\"18446744073709551615\""), &value) && value == UINT64_MAX, "the largest");
    CHECK(json_to_u64(parsed("\"0\""), &value) && value == 0, "zero");
    const char *bad[] = {"\"18446744073709551616\"", "\"00\"", "\"01\"", "\"\"", "\"-1\"", "\"+1\"", "\" 1\"",
                         "\"1e3\"", "1", "null"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!json_to_u64(parsed(bad[i]), &value), "%s", bad[i]);
}

static void check_written(double value) {
    char text[NUMBER_TEXT + 1];
    text[double_to_text(value, text)] = '\0';
    CHECK(parses(text), "%.17g written as %s", value, text);
    CHECK(fabs(strtod(text, NULL) - value) <= 5.1e-9 * fabs(value), "%.17g written as %s", value, text);
}

static void test_writes_nine_digits(void) {
    const struct {
        double value;
        const char *text;
    } exact[] = {{0, "0"},       {-0.0, "0"},      {1, "1"},       {0.5, "0.5"},   {-12.25, "-12.25"},
                 {1000, "1000"}, {100.5, "100.5"}, {1e9, "1e9"},   {1e-7, "1e-7"}, {0.000001, "0.000001"},
                 {1.5e300, "1.5e300"}, {123456789, "123456789"}, {0.999999999, "0.999999999"}, {0.9999999999, "1"}};
    char text[NUMBER_TEXT + 1];
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        text[double_to_text(exact[i].value, text)] = '\0';
        CHECK(strcmp(text, exact[i].text) == 0, "%s instead of %s", text, exact[i].text);
    }
    rng r = rng_start(2, 0);
    for (int i = 0; i < 20000; i++) {
        int exponent = (int)rng_below(&r, 1900) - 950;
        check_written(rng_uniform(&r, 1) * power_of_two(exponent));
    }
    check_written(1.7976931348623157e308);
}

static void test_writer_escapes_and_notices_overflow(void) {
    char text[64];
    json_writer w;
    json_start(&w, text, sizeof text);
    json_open(&w, '{');
    json_key(&w, "a");
    json_string(&w, "\"\\\n\x01");
    json_key(&w, "b");
    json_open(&w, '[');
    json_integer(&w, UINT64_MAX);
    json_value(&w, "{}");
    json_close(&w, ']');
    json_close(&w, '}');
    const char *expected = "{\"a\":\"\\\"\\\\\\u000a\\u0001\",\"b\":[18446744073709551615,{}]}";
    CHECK(!w.overflow && w.bytes == strlen(expected), "%u bytes", w.bytes);
    CHECK(memcmp(text, expected, w.bytes) == 0, "%.*s", (int)w.bytes, text);
    json_start(&w, text, 4);
    json_string(&w, "abc");
    CHECK(w.overflow && w.bytes == 4, "%u bytes", w.bytes);
}

static void test_functions_are_close_to_the_library(void) {
    rng r = rng_start(3, 0);
    for (int i = 0; i < 100000; i++) {
        double x = rng_uniform(&r, i % 2 ? 5 : 700), positive = exp(x);
        CHECK(fabs(weei_exp(x) / exp(x) - 1) < 1e-15, "exp(%.17g)", x);
        CHECK(fabs(weei_log(positive) - log(positive)) <= 1e-15 * fabs(log(positive)), "log(%.17g)", positive);
        double near = x * 1e-3;
        CHECK(fabs(weei_tanh(near) - tanh(near)) <= 1e-12 * fabs(tanh(near)), "tanh(%.17g)", near);
    }
    CHECK(weei_exp(-1e9) == 0 && weei_exp(0) == 1 && isinf(weei_exp(1e9)) && isnan(weei_exp(NAN)), "ends of exp");
    CHECK(weei_tanh(1e9) == 1 && weei_tanh(-1e9) == -1 && weei_tanh(0) == 0 && isnan(weei_tanh(NAN)), "ends of tanh");
    CHECK(weei_log(1) == 0 && is_finite(1) && !is_finite(NAN) && !is_finite(INFINITY), "log and is_finite");
}

static void test_random_numbers_fill_their_range(void) {
    rng r = rng_start(4, 0);
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) seen[rng_below(&r, 7)]++;
    for (int i = 0; i < 7; i++) CHECK(seen[i] > 850 && seen[i] < 1150, "%d of 7000 are %d", seen[i], i);
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        float value = rng_uniform(&r, 0.25f);
        CHECK(value >= -0.25f && value < 0.25f, "%g", value);
        sum += value;
    }
    CHECK(fabs(sum) < 0.25 * 200, "mean %g", sum / 10000);
    rng a = rng_start(5, 1), b = rng_start(6, 0), c = rng_start(5, 2);
    uint64_t x = rng_next(&a);
    CHECK(x != rng_next(&b) && x != rng_next(&c), "streams meet");
}

int main(void) {
    test_accepts_json_and_nothing_else();
    test_stops_at_32_levels();
    test_finds_members_and_elements();
    test_reads_numbers_like_strtod();
    test_refuses_numbers_it_cannot_hold();
    test_reads_seeds_strictly();
    test_writes_nine_digits();
    test_writer_escapes_and_notices_overflow();
    test_functions_are_close_to_the_library();
    test_random_numbers_fill_their_range();
    return 0;
}
