"""Configured copies of base modules: what changes, what stays, and which modules are refused."""

import json
from functools import cache
from pathlib import Path

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.driver import Driver
from weei_core.abi.module import check_interface, memory_maximum_pages
from weei_core.errors import Invalid
from weei_core.generator.architectures import MlpArchitecture
from weei_core.generator.configuration import mlp_blob, segment
from weei_core.generator.wasm_edit import (
    CONFIG_ADDRESS,
    CONFIG_LIMIT,
    MemoryLimits,
    config_section,
    configured,
    memory_limits,
)

ENGINE = wasmtime.Engine()
MLP = Path(__file__).parents[3].joinpath("reference_models", "mlp", "mlp.wasm").read_bytes()
TINY = bytes(
    wasmtime.wat2wasm("""(module
      (memory (export "memory") 65 66)
      (func (export "seven") (result i32) (i32.const 7))
      (data (i32.const 4194304) "static")
      (data (i32.const 16) "stack"))""")
)


def sections(module: bytes) -> list[tuple[int, bytes]]:
    """Written apart from the code under test: (id, content) of each section, numbers of any length."""

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (module[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if module[at - 1] < 0x80:
                return value, at

    found, at = [], 8
    while at < len(module):
        size, begin = number(at + 1)
        found.append((module[at], module[begin : begin + size]))
        at = begin + size
    return found


def edit(module: bytes, content: bytes = b"configuration", **options: object) -> bytes:
    return configured(module, content, **{"section": b"{}", "initial_pages": 65, "maximum_pages": 80, **options})


def memory_of(module: bytes, at: int, size: int) -> bytes:
    store = wasmtime.Store(ENGINE)
    imports = [wasmtime.Func(store, wasmtime.FuncType([wasmtime.ValType.i32()] * 2, []), lambda *_: None)]
    compiled = wasmtime.Module(ENGINE, module)
    exports = wasmtime.Instance(store, compiled, imports[: len(compiled.imports)]).exports(store)
    return bytes(exports["memory"].read(store, at, at + size))


@given(
    content=st.binary(min_size=1, max_size=3000),
    section=st.binary(max_size=300),
    initial=st.integers(65, 70),
    more=st.integers(0, 60_000),
)
@settings(max_examples=60, deadline=None)
def test_everything_that_was_given_is_there_and_the_rest_is_as_it_was(content, section, initial, more):
    options = {"section": section, "initial_pages": initial, "maximum_pages": min(initial + more, 65_536)}
    made = configured(TINY, content, **options)
    assert made == configured(TINY, content, **options)
    assert memory_of(made, CONFIG_ADDRESS, len(content)) == content
    assert memory_of(made, CONFIG_LIMIT, 6) == b"static" and memory_of(made, 16, 5) == b"stack"
    assert memory_limits(made) == MemoryLimits(initial, options["maximum_pages"])
    assert config_section(made) == section and config_section(TINY) is None
    kept = [(number, part) for number, part in sections(TINY) if number not in (5, 11, 12)]
    assert [(number, part) for number, part in sections(made) if number not in (5, 11, 12)][:-1] == kept


@cache
def network() -> tuple[MlpArchitecture, bytes]:
    architecture = MlpArchitecture.parse({"inputs": 1, "outputs": 2, "hidden": [2], "inputKind": "uint8"})
    return architecture, mlp_blob(architecture, classes=["no", "yes"])


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(info=st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53) | st.lists(TEXT, max_size=3), max_size=5))
@settings(max_examples=40, deadline=None)
def test_the_module_answers_exactly_the_info_text(info):
    architecture, blob = network()
    content = segment(architecture.config_kind, info, architecture.values(), blob)
    compiled = wasmtime.Module(ENGINE, edit(MLP, content))
    check_interface(compiled)
    assert memory_maximum_pages(compiled) == 80
    driver = Driver(ENGINE, compiled)
    pointer = driver.call("getModelInfo", *driver.put(b"{}").values())
    text = bytes(driver.read(pointer, driver.call("resultLength"))).decode()
    assert json.loads(text) == info
    assert text.encode() in content


def test_an_info_longer_than_the_librarys_own_buffer_is_answered_whole():
    architecture, blob = network()
    info = {"name": "é" * 100_000}
    driver = Driver(ENGINE, wasmtime.Module(ENGINE, edit(MLP, segment(1, info, architecture.values(), blob))))
    assert driver.run("getModelInfo", {}) == info
    assert driver.text("getModelInfo", b"[")["error"]
    assert driver.run("getModelInfo", {}) == info


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_a_damaged_module_is_refused_or_edited_and_nothing_else(data):
    """Any bytes in any place: no exception but `Invalid`."""
    base = data.draw(st.sampled_from([TINY, MLP[:4000] + MLP[-4000:], MLP]))
    at = data.draw(st.integers(0, min(len(base), 300)) | st.integers(0, len(base)))
    wrong = data.draw(st.binary(max_size=12))
    damaged = base[:at] + wrong + base[at + data.draw(st.integers(0, 12)) :]
    damaged = damaged[: data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))]
    try:
        made = edit(damaged)
    except Invalid as refused:
        assert refused.field == "module" and refused.message.endswith(".")
    else:
        assert config_section(made) == b"{}"


@given(st.binary(max_size=200).map(lambda tail: b"\0asm\1\0\0\0" + tail) | st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_other_bytes_are_refused(content):
    with pytest.raises(Invalid, match="The base module"):
        edit(content)


def section_of(number: int, content: bytes) -> bytes:
    return bytes([number, len(content)]) + content


HEADER = b"\0asm\1\0\0\0"
MEMORY = section_of(5, b"\1\1\x41\x42")
STATIC = section_of(11, b"\1\0\x41\x80\x80\x80\x02\x0b\1x")  # at 4,194,304


def test_the_smallest_module_that_fits():
    assert memory_of(edit(TINY), CONFIG_ADDRESS, 13) == b"configuration"
    assert edit(HEADER + MEMORY + STATIC).startswith(HEADER)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (b"", "does not start with 00 61 73 6d"),
        (b"\0asm\r\0\1\0", "does not start with"),
        (HEADER, "has no memory section"),
        (HEADER + MEMORY, "has no data section"),
        (HEADER + MEMORY + MEMORY + STATIC, "id 5 that is unknown, doubled or in the wrong place"),
        (HEADER + STATIC + MEMORY, "id 5 that is unknown, doubled or in the wrong place"),
        (HEADER + section_of(13, b"\0") + MEMORY + STATIC, "id 13"),
        (HEADER + section_of(5, b"\0") + STATIC, "has 0 memories"),
        (HEADER + section_of(5, b"\1\3\x41\x42") + STATIC, "shared or 64-bit memory"),
        (HEADER + section_of(5, b"\1\4\x41") + STATIC, "shared or 64-bit memory"),
        (HEADER + section_of(5, b"\1\1\x42\x41") + STATIC, "memory of 66 to 65 pages"),
        (HEADER + section_of(5, b"\1\0\x81\x80\x04") + STATIC, "memory of 65537 to None pages"),
        (HEADER + section_of(5, b"\1\1\x41\x42\0") + STATIC, "1 bytes too many in its memory section"),
        (HEADER + section_of(5, b"\1\1\x41") + STATIC, "ends within its memory section"),
        (HEADER + section_of(5, b"\1\1\x41\x80\x80\x80\x80\x10") + STATIC, "number above 32 bits"),
        (HEADER + section_of(5, b"\1\1\x41\x80\x80\x80\x80\x80\0") + STATIC, "more than five bytes"),
        (HEADER + MEMORY + section_of(11, b"\1\1\1x"), "not active at a constant address"),
        (HEADER + MEMORY + section_of(11, b"\1\2\0\x41\0\x0b\1x"), "not active at a constant address"),
        (HEADER + MEMORY + section_of(11, b"\1\0\x23\0\x0b\1x"), "not active at a constant address"),
        (HEADER + MEMORY + section_of(11, b"\1\0\x41\0\x41\1x"), "not active at a constant address"),
        (HEADER + MEMORY + section_of(11, b"\1\0\x41\x80\x80\x80\x80\x18\x0b\1x"), "number above 32 bits"),
        (HEADER + MEMORY + section_of(11, b"\1\0\x41\x80\x80\x04\x0b\1x"), "from byte 65536 to 65537, where the conf"),
        (HEADER + MEMORY + section_of(11, b"\xff\xff\xff\xff\x0f"), "ends within its data section"),
        (HEADER + MEMORY + STATIC + b"\0\5\x0bweei", "ends within its custom section"),
        (HEADER + MEMORY + section_of(12, b"\2") + STATIC, "has 1 data segments, and a data-count section of 2"),
        (HEADER + MEMORY + STATIC + b"\0", "ends within its sections"),
        (HEADER + MEMORY + STATIC + b"\0\x80\x80\x80\x80\x80", "more than five bytes"),
    ],
)
def test_a_module_of_another_shape_is_refused(module, said):
    with pytest.raises(Invalid) as refused:
        edit(module)
    assert said in refused.value.message and refused.value.code == "invalid_module"


def test_a_configured_module_is_not_configured_again():
    with pytest.raises(Invalid, match="section weei.config already"):
        edit(edit(TINY))


@pytest.mark.parametrize("size", [0, CONFIG_LIMIT - CONFIG_ADDRESS + 1])
def test_a_configuration_that_does_not_fit_is_refused(size):
    with pytest.raises(Invalid, match="must be 1 to 4128768 bytes long"):
        edit(TINY, bytes(size))


def test_the_longest_configuration_ends_where_the_static_data_begin():
    content = b"x" * (CONFIG_LIMIT - CONFIG_ADDRESS)
    assert memory_of(edit(TINY, content), CONFIG_LIMIT - 1, 7) == b"xstatic"


@pytest.mark.parametrize(("initial", "maximum"), [(64, 80), (65, 64), (66, 65), (65, 65_537), (0, 0), (-1, 70)])
def test_a_memory_that_does_not_hold_the_data_is_refused(initial, maximum):
    with pytest.raises(Invalid, match=f"found {initial} and {maximum}") as refused:
        edit(TINY, initial_pages=initial, maximum_pages=maximum)
    assert refused.value.field == "memory"


def test_all_of_the_address_space_is_allowed():
    assert memory_limits(edit(TINY, maximum_pages=65_536)) == MemoryLimits(65, 65_536)
