import hashlib
import json
import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.js_json import dumps, inline_text
from weei_core.strict_json import loads

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "json.json").read_text())

STRINGIFY = """
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => JSON.stringify(JSON.parse(text)))));
"""


@pytest.mark.parametrize("vector", GOLDEN, ids=lambda vector: vector["compact"][:30])
def test_writes_the_text_node_wrote(vector):
    value = json.loads(vector["source"])
    assert dumps(value) == vector["compact"]
    assert dumps(value, 2) == vector["indented"]


@pytest.mark.parametrize(
    ("source", "size", "sha256"),
    [
        (
            '{"lr":1e-7,"decay":0.00001,"big":1e16,"huge":1e21,"neg":-0.0,"one":1.0,"third":0.1}',
            122,
            "e800f468c65f76b664a4249c42f6f171ab8d63ff370f7adcc0813710a6888257",
        ),
        (
            '{"a":[],"b":{},"c":[[]],"d":[{}]}',
            67,
            "bbc19db8ddb4110d9c7a84086649a3eb7dfa7d2924fd2fa6269ea746714883c6",
        ),
        (
            r'{"label":"\u00c9pisodes \u2028 \ud83d\ude00 \u007f","t":"tab\tend"}',
            57,
            "3202eaf1837efea0bb7fce1bb2764993d38376dacbec718f0b90742bd0566737",
        ),
        (r'{"label":"\ud800"}', 24, "c6372aec407f3f5d43eb98b16780fc1ba26e3d9bebcba397d92a28385e8f5a71"),
    ],
)
def test_inline_files_have_the_published_size_and_hash(source, size, sha256):
    """C51 and C53, whose hashes end in a space or a line feed: the white-space byte is the last."""
    text = inline_text(json.loads(source))
    assert len(text) == size
    assert sha256 in {hashlib.sha256(text).hexdigest(), hashlib.sha256(text[:-1] + b" ").hexdigest()}
    assert text.endswith(b"\n")


def test_an_empty_dataset_manifest_is_three_bytes():
    assert inline_text([]) == b"[]\n"


def test_large_whole_numbers_take_the_form_of_the_browser():
    """C51: 2**64 is a double, 2**64 - 1 is not."""
    assert dumps(2**64) == dumps(2.0**64) == dumps(loads("18446744073709551616")) == "18446744073709552000"
    for number in (2**64 - 1, 2**53 + 1, 10**400):
        with pytest.raises(Invalid, match="none holds this whole number exactly"):
            dumps(number)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_refuses_numbers_that_json_lacks(number):
    """C76: JavaScript would write null, and the reader would see a value nobody measured."""
    with pytest.raises(Invalid):
        dumps({"loss": [number]})


def test_refuses_values_that_are_not_json():
    with pytest.raises(TypeError, match="bytes"):
        dumps({"a": b""})


def test_surrogate_halves_side_by_side_are_one_character():
    assert dumps("\ud83d\ude00") == dumps("😀") == '"😀"'


numbers = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**53), 2**53)
    | st.builds(lambda digits, power: float(f"{digits}e{power}"), st.integers(1, 10**17), st.integers(-30, 30))
)
texts = st.text(st.characters(), max_size=8) | st.text('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\ud800\udc00a', max_size=6)
keys = texts | st.integers(-2, 2**33).map(str) | st.sampled_from(["01", "1.0", "4294967294", "4294967295"])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(keys, children, max_size=5),
    max_leaves=12,
)


def test_writes_what_node_writes():
    """One Node process answers for the whole batch. Python's own text carries the values over exactly."""
    sources = []

    @settings(max_examples=600)
    @given(values)
    def collect(value):
        sources.append(json.dumps(value))

    collect()
    run = subprocess.run(
        ["node", "-e", STRINGIFY], input=json.dumps(sources), capture_output=True, text=True, check=True
    )
    assert [dumps(json.loads(source)) for source in sources] == json.loads(run.stdout)


@given(numbers)
def test_every_number_written_is_read_back_by_the_strict_reader(number):
    """Also those above 2**53, whose shortest digits are not their exact value: 18446744073709552000 is 2**64."""
    assert loads(dumps(number)) == number
