import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.strict_json import (
    as_bool,
    as_choice,
    as_int,
    as_list,
    as_number,
    as_object,
    as_sha256,
    as_text,
    loads,
    refuse_unknown,
    shown,
)

BASE64_HASH = "wWNyiZopBtX43cvWNxpuIxWQm5pxlTaO1VeTkE6bM9M="


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"null", None),
        (b' {"a": [1, 2.5, true, "x"]}\n', {"a": [1, 2.5, True, "x"]}),
        ("é".join('""').encode(), "é"),
        (rb'"\ud83d\ude00"', "😀"),
        (b"9007199254740992", 2**53),
        (b"-9007199254740992", -(2**53)),
        (b"1e-400", 0.0),
        (b"[]", []),
        ("{}", {}),
    ],
)
def test_reads_what_every_reader_reads_the_same(text, value):
    assert loads(text) == value


@pytest.mark.parametrize(
    ("literal", "number"),
    [
        ("10000000000000000", 1e16),
        ("18446744073709551616", 2.0**64),
        ("18446744073709552000", 2.0**64),
        ("-1180591620717411303424", -(2.0**70)),
    ],
)
def test_large_whole_numbers_become_the_double_that_holds_them(literal, number):
    """C51: above 2**53 only what a double holds exactly, or JavaScript's own text for it."""
    value = loads(literal)
    assert value == number
    assert isinstance(value, float)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("\ufeff{}", "byte order mark"),
        ('{"round": 1}'.encode("utf-16"), "not UTF-8"),
        ('{"round": 1}'.encode("utf-16-le"), "Expecting"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b'{"round": 1, "x": {}, "round": 2}', 'the key "round" appears twice'),
        (b'{"a": {"b": 1, "\\u0062": 1}}', 'the key "b" appears twice'),
        (b'{"loss": NaN}', "NaN is not a JSON value"),
        (b"Infinity", "Infinity"),
        (b"-Infinity", "-Infinity"),
        (b"1e400", "too large"),
        (b"-1e400", "too large"),
        (b"9007199254740993", "no double holds"),
        (b"18446744073709551615", "no double holds"),
        (b"1" * 5000, "too large"),
        (b"-" + b"1" * 5000, "too large"),
        (b'"\\ud800"', "U+D800"),
        (b'{"\\udfff": 1}', "U+DFFF"),
        ('"\ud800"', "U+D800"),
        (b'"a\\u0000b"', "NUL"),
        (b'{"\\u0000": 1}', "NUL"),
        (b'"a\x00b"', "Invalid control character"),
        (b"[1] 2", "Extra data"),
        (b"[1,]", "Expecting value"),
        (b"007", "Extra data"),
        (b"1_000", "Extra data"),
        ("٤٢", "Expecting value"),
        (b"'a'", "Expecting value"),
        (b"[" * 33 + b"]" * 33, "more than 32 levels"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "more than 32 levels"),
        (b"[" * 1_000_000, "more than 32 levels"),
        (b'{"a":' * 200_000, "more than 32 levels"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_refuses_what_readers_disagree_on(text, reason):
    """C42, C54, C86, F5, and measured fact 8: NaN, 1e999, repeated keys, surrogates, depth, 5,000 digits."""
    with pytest.raises(Invalid) as refused:
        loads(text, what="manifest.json")
    assert refused.value.code == "invalid_json"
    assert refused.value.message.startswith("manifest.json is not valid JSON: ")
    assert reason in refused.value.message
    refused.value.message.encode()


def test_depth_counts_containers_only():
    assert loads("[" * 32 + "1" + "]" * 32) is not None
    assert loads('[{"a": 1}]', max_depth=2) == [{"a": 1}]
    with pytest.raises(Invalid):
        loads('[{"a": []}]', max_depth=2)


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_never_raises_anything_but_invalid(data):
    try:
        loads(data)
    except Invalid as error:
        assert error.code == "invalid_json"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text("abé", max_size=3), children, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_reads_every_plain_value_as_the_standard_reader_does(value):
    text = json.dumps(value)
    assert loads(text) == json.loads(text)


@pytest.mark.parametrize(("value", "number"), [(3, 3), (3.0, 3), (1e2, 100), (128.0, 128), (-0.0, 0), (1, 1)])
def test_whole_numbers_may_be_written_as_floats(value, number):
    """C47: 128.0 and 1e2 are whole numbers, as in JavaScript."""
    result = as_int(value, "exampleCount", 0, 10000)
    assert result == number
    assert type(result) is int


@pytest.mark.parametrize(
    "value",
    [True, False, "128", 128.5, -1, 10001, None, [], {}, float("nan"), float("inf"), -float("inf"), 2**70, 1e300],
)
def test_other_values_are_not_whole_numbers_in_range(value):
    """C47: true is not 1."""
    with pytest.raises(Invalid, match=r"^exampleCount must be a whole number from 0 to 10000; found ") as refused:
        as_int(value, "exampleCount", 0, 10000)
    assert refused.value.field == "exampleCount"


def test_numbers_are_finite_and_in_range():
    assert as_number(1, "rate") == 1.0
    assert as_number(0, "rate", 0, 10) == 0
    assert as_number(10, "rate", 0, 10) == 10
    for value in (True, "0.9", None, float("nan"), float("inf"), 10**400, 10.0001, -0.1):
        with pytest.raises(Invalid, match=r"^rate must be a finite number from 0 to 10; found "):
            as_number(value, "rate", 0, 10)
    with pytest.raises(Invalid, match=r"^rate must be a finite number; found "):
        as_number([], "rate")


def test_text_is_storable_and_bounded_in_bytes():
    """C86: NUL and lone surrogates break the insert into PostgreSQL."""
    assert as_text("é" * 4, "label", 8) == "é" * 4
    assert as_text("", "label", 8, allow_empty=True) == ""
    for value, reason in [
        (1, "found 1"),
        ("", "not empty"),
        ("é" * 5, "at most 8 bytes of text; found 10"),
        ("a\0b", "NUL"),
        ("\ud800", r"U\+D800"),
    ]:
        with pytest.raises(Invalid, match=f"^label must be .*{reason}"):
            as_text(value, "label", 8)


def test_containers_and_choices():
    assert as_bool(True, "x") is True
    assert as_object({"a": 1}, "x") == {"a": 1}
    assert as_list([1], "x", 1) == [1]
    assert as_choice("a", "x", ("a", "b")) == "a"


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (as_bool, 1),
        (as_bool, None),
        (as_object, []),
        (as_list, {}),
        (as_list, "ab"),
        (partial(as_list, max_items=1), [1, 2]),
        (partial(as_choice, choices=("a", "b")), "c"),
        (partial(as_choice, choices=("a", "b")), ["a"]),
    ],
)
def test_other_kinds_are_refused_by_name(check, value):
    with pytest.raises(Invalid, match=r"^x must .*; found "):
        check(value, "x")


def test_hashes_are_lowered_and_malformed_ones_named():
    """C46: capitals are accepted, everything else is a format error and never "file corrupt"."""
    digits = "c16372899a2906d5f8ddcbd6371a6e2315909b9a7195368ed55793904e9b33d3"
    assert as_sha256(digits.upper(), "sha256") == digits
    assert as_sha256("C" + digits[1:], "sha256") == digits
    for value in (digits + "\n", digits[1:], digits + "0", BASE64_HASH, "g" * 64, "٤" * 64, 5, None):
        with pytest.raises(Invalid, match=r"^sha256 must be a SHA-256 of 64 hexadecimal digits; found "):
            as_sha256(value, "sha256")


def test_unknown_fields_are_named_with_what_is_allowed():
    refuse_unknown({"a": 1}, "settings", ("a", "b"))
    with pytest.raises(Invalid, match='settings may hold a, b; found "owner"'):
        refuse_unknown({"a": 1, "owner": 2}, "settings", ("a", "b"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("\ud800", '"\ufffd"'),
        ("x" * 1000, '"' + "x" * 60 + '…"'),
        ("two\nlines", '"two\\nlines"'),
        (1e400, "inf"),
        (-5, "-5"),
        (10**100, "a number of more than 60 digits"),
        ({"a": 1}, "an object"),
        ([1], "a list"),
        (b"x", "a value of type bytes"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_values_are_shown_short_and_on_one_line(value, text):
    assert shown(value) == text
