"""Small modules that each do one thing wrong, or something odd that is allowed, and what a host must say of it.

Every case is a model that is honest but for the parts it replaces. `python -m tests.hosts.modules.build` compiles
them for hosts that have no assembler. A host describes the module (getModelInfo, createInitialWeights, loadModel)
and then lets it train 8 units; the first refusal counts, and `code` None means that all of it must succeed.
"""

from __future__ import annotations

from tests.hosts.modules.wat import (
    EMPTY,
    GROW,
    INFO,
    LOOP,
    PROGRESS,
    TRAINED,
    Case,
    alloc,
    does,
    length,
    reports,
    says,
    start,
    trained,
)

CASES = (
    Case("honest", "", None),
    # Time and memory.
    Case("start_loops", "W1 C58", "time_limit", "start", start("(loop $forever (br $forever))")),
    Case(
        "initialize_loops",
        "W1",
        "time_limit",
        "start",
        {"extra": '(func (export "_initialize") (loop $forever (br $forever)))'},
    ),
    Case("info_loops", "W1 C58", "time_limit", "getModelInfo", does("getModelInfo", LOOP)),
    Case("train_loops", "W1", "time_limit", "train", does("train", LOOP)),
    Case("alloc_loops", "W1", "time_limit", "getModelInfo", alloc(LOOP)),
    Case(
        "fills_for_ever",
        "W1",
        "time_limit",
        "train",
        does(
            "train",
            "(loop $again (memory.fill (i32.const 4096) (i32.const 1) (i32.const 61440)) (br $again)) (unreachable)",
        ),
    ),
    Case("memory_of_4_gib", "W2", "memory_limit", "start", {"memory": '(memory (export "memory") 65536 65536)'}),
    Case(
        "grows_until_refused", "W2 C58", "module_error", "train", says("train", b'{"error":"no memory"}', before=GROW)
    ),
    Case("table_of_10_million", "W12", "memory_limit", "start", {"extra": "(table 10000000 funcref)"}),
    Case(
        "recurses",
        "W3 C58",
        "trap",
        "train",
        does("train", "(call $down) " + TRAINED, extra="(func $down (call $down))"),
    ),
    Case("unreachable", "W3", "trap", "train", does("train", "unreachable")),
    Case("reads_outside", "W3", "trap", "train", does("train", "(i32.load (i32.const -4))")),
    Case("divides_by_zero", "W3", "trap", "train", does("train", "(i32.div_u (i32.const 1) (i32.const 0))")),
    Case(
        "calls_null",
        "W3",
        "trap",
        "train",
        does("train", "(call_indirect (result i32) (i32.const 0))", extra="(table 1 funcref)"),
    ),
    Case("start_traps", "C60", "trap", "start", start("unreachable")),
    Case("data_segment_outside", "W3", "trap", "start", {"extra": '(data (i32.const 65535) "ab")'}),
    # Imports and exports.
    Case("imports_a_clock", "W4 C60", "import_not_allowed", None, {"imports": '(import "env" "now" (func))'}),
    Case(
        "imports_wasi",
        "W4",
        "import_not_allowed",
        None,
        {"imports": '(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))'},
    ),
    Case(
        "progress_of_one_number",
        "W4 C60",
        "import_not_allowed",
        None,
        {"imports": '(import "weei" "onProgress" (func (param i32)))'},
    ),
    Case(
        "progress_is_a_global",
        "W4",
        "import_not_allowed",
        None,
        {"imports": '(import "weei" "onProgress" (global i32))'},
    ),
    Case(
        "imports_progress_twice",
        "C60",
        "import_not_allowed",
        None,
        {"imports": PROGRESS + '(import "weei" "onProgress" (func (param i32 i32)))'},
    ),
    Case(
        "imports_its_memory",
        "W4 C60",
        "import_not_allowed",
        None,
        {"imports": '(import "env" "memory" (memory 1 2))', "memory": '(export "memory" (memory 0))'},
    ),
    Case("lacks_memory", "W5", "export_missing", None, {"memory": "(memory 1 2)"}),
    Case("lacks_free", "W5 C60", "export_missing", None, {"free": ""}),
    Case("lacks_train", "W5", "export_missing", None, {"train": ""}),
    Case(
        "memory_is_a_global",
        "W5",
        "export_signature",
        None,
        {"memory": '(memory 1 2) (global (export "memory") i32 (i32.const 0))'},
    ),
    Case(
        "train_takes_nothing",
        "W5",
        "export_signature",
        None,
        {"train": '(func (export "train") (result i32) (i32.const 0))'},
    ),
    Case(
        "alloc_takes_i64",
        "W5",
        "export_signature",
        None,
        {"alloc": '(func (export "alloc") (param i64) (result i32) (i32.const 0))'},
    ),
    Case(
        "predict_returns_nothing",
        "W5",
        "export_signature",
        None,
        {"extra": '(func (export "predict") (param i32 i32))'},
    ),
    Case(
        "promises_evaluate",
        "W5",
        "export_missing",
        "getModelInfo",
        says("getModelInfo", b'{"id":"hostile","capabilities":{"evaluation":true}}'),
    ),
    # alloc and free.
    Case("alloc_returns_0", "W6", "alloc_failed", "getModelInfo", alloc("(i32.const 0)")),
    Case("alloc_returns_negative", "W6", "out_of_bounds", "getModelInfo", alloc("(i32.const -16)")),
    Case("alloc_returns_the_end", "W6", "out_of_bounds", "getModelInfo", alloc("(i32.const 65536)")),
    Case("alloc_is_not_aligned", "W6", "alloc_misaligned", "getModelInfo", alloc("(i32.const 8200)")),
    Case("alloc_gives_one_place_twice", "W6", "alloc_overlap", "loadModel", alloc("(i32.const 8192)")),
    Case("free_traps", "W6", "trap", "getModelInfo", {"free": '(func (export "free") (param i32 i32) unreachable)'}),
    # Results.
    Case(
        "result_outside",
        "W7",
        "out_of_bounds",
        "getModelInfo",
        does("getModelInfo", "(call $say (i32.const 65530) (i32.const 7))"),
    ),
    Case(
        "result_at_minus_one",
        "W7",
        "out_of_bounds",
        "getModelInfo",
        does("getModelInfo", "(call $say (i32.const -1) (i32.const 2))"),
    ),
    Case("result_of_2_gib", "W7", "result_too_large", "getModelInfo", length("(i32.const 0x80000000)")),
    Case(
        "result_of_500_mib",
        "W7",
        "result_too_large",
        "loadModel",
        does("loadModel", "(call $say (i32.const 96) (i32.const 524288000))"),
    ),
    Case(
        "info_over_256_kib",
        "W7",
        "result_too_large",
        "getModelInfo",
        does(
            "getModelInfo",
            "(drop (memory.grow (i32.const 8))) (call $say (i32.const 64) (i32.const 262145))",
        ),
    ),
    Case(
        "initial_weights_outside",
        "W7",
        "out_of_bounds",
        "createInitialWeights",
        says("createInitialWeights", b'{"pointer":65532,"bytes":8}'),
    ),
    Case(
        "initial_weights_wrap",
        "W7",
        "out_of_bounds",
        "createInitialWeights",
        says("createInitialWeights", b'{"pointer":4294967292,"bytes":16}'),
    ),
    Case(
        "pointer_is_negative",
        "W7",
        "invalid_result",
        "createInitialWeights",
        says("createInitialWeights", b'{"pointer":-4,"bytes":4}'),
    ),
    Case(
        "pointer_is_text",
        "W7",
        "invalid_result",
        "createInitialWeights",
        says("createInitialWeights", b'{"pointer":"16","bytes":4}'),
    ),
    Case(
        "result_is_empty",
        "W8",
        "invalid_result",
        "getModelInfo",
        does("getModelInfo", "(call $say (i32.const 0) (i32.const 0))"),
    ),
    Case("result_is_not_utf8", "W8", "invalid_result", "getModelInfo", says("getModelInfo", b'{"id":"\xff\xfe"}')),
    Case("result_is_a_list", "W8", "invalid_result", "loadModel", says("loadModel", b"[]")),
    Case(
        "result_holds_nan",
        "W8 C76",
        "invalid_result",
        "train",
        says("train", trained(b'{"pointer":1024,"bytes":16}').replace(b"{}", b'{"loss":NaN}')),
    ),
    Case("result_repeats_a_key", "W8", "invalid_result", "loadModel", says("loadModel", b'{"a":1,"a":2}')),
    Case(
        "result_is_deep",
        "W8",
        "invalid_result",
        "loadModel",
        says("loadModel", b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"),
    ),
    Case("result_holds_a_surrogate", "W8", "invalid_result", "loadModel", says("loadModel", b'{"a":"\\ud800"}')),
    Case("train_returns_nothing", "W8", "invalid_result", "train", does("train", EMPTY)),
    Case(
        "counts_are_fractions",
        "C21",
        "invalid_result",
        "train",
        says("train", trained(b'{"pointer":1024,"bytes":16}').replace(b"8}", b"8.5}")),
    ),
    # Weights.
    Case(
        "no_initial_weights",
        "W16",
        "wrong_size",
        "createInitialWeights",
        says("createInitialWeights", b'{"pointer":1024,"bytes":0}'),
    ),
    Case(
        "six_bytes_of_weights",
        "W16",
        "wrong_size",
        "createInitialWeights",
        says("createInitialWeights", b'{"pointer":1024,"bytes":6}'),
    ),
    Case(
        "initial_weights_are_nan",
        "W16 C07",
        "non_finite",
        "createInitialWeights",
        {"extra": '(data (i32.const 1024) "\\00\\00\\c0\\7f")'},
    ),
    Case(
        "initial_weights_are_infinite",
        "W16 C07",
        "non_finite",
        "createInitialWeights",
        {"extra": '(data (i32.const 1036) "\\00\\00\\80\\ff")'},
    ),
    Case(
        "smallest_and_largest_weights",
        "C07",
        None,
        None,
        {"extra": '(data (i32.const 1024) "\\00\\00\\00\\80\\01\\00\\00\\00\\ff\\ff\\7f\\7f\\ff\\ff\\7f\\7f")'},
    ),
    Case("trains_to_other_size", "C18", "wrong_size", "train", says("train", trained(b'{"pointer":1024,"bytes":12}'))),
    Case(
        "trains_to_nan",
        "C07",
        "non_finite",
        "train",
        does("train", "(i32.store (i32.const 1032) (i32.const 0x7fa00001))" + TRAINED),
    ),
    # The module's own words.
    Case(
        "answers_differ",
        "W13",
        "invalid_result",
        "getModelInfo",
        does(
            "getModelInfo",
            "(i32.store8 (i32.const 72) (i32.add (i32.const 97) (global.get $asked)))"
            "(global.set $asked (i32.add (global.get $asked) (i32.const 1)))" + INFO,
            extra="(global $asked (mut i32) (i32.const 0))",
        ),
    ),
    Case(
        "error_of_900_kib",
        "W14",
        "module_error",
        "train",
        {
            "memory": '(memory (export "memory") 16 64)',
            "extra": '(data (i32.const 65536) "{\\22error\\22:\\22<script>") (data (i32.const 987654) "\\22}")',
            **does(
                "train",
                "(memory.fill (i32.const 65554) (i32.const 120) (i32.const 922100))"
                "(call $say (i32.const 65536) (i32.const 922120))",
            ),
        },
    ),
    Case("error_is_empty", "C63", "module_error", "train", says("train", b'{"error":""}')),
    Case("error_is_a_number", "C63", "module_error", "train", says("train", b'{"error":42}')),
    Case("error_is_an_object", "C63", "module_error", "train", says("train", b'{"error":{}}')),
    Case("error_is_null", "C63", "module_error", "train", says("train", b'{"error":null}')),
    Case("weights_not_compatible", "", "module_error", "loadModel", says("loadModel", b'{"error":"other model"}')),
    # Features outside the ABI.
    Case("memory64", "W2", "feature_refused", None, {"memory": '(memory (export "memory") i64 1 2)', "data": ""}),
    Case("two_memories", "W2", "feature_refused", None, {"extra": "(memory 1 2)"}),
    Case("shared_memory", "W2", "feature_refused", None, {"memory": '(memory (export "memory") 1 2 shared)'}),
    Case("atomics", "W2", "feature_refused", None, does("train", "(i32.atomic.load (i32.const 0))")),
    Case(
        "relaxed_simd",
        "W15",
        "feature_refused",
        None,
        {"extra": "(func (param v128) (result v128)(f32x4.relaxed_min (local.get 0) (local.get 0)))"},
    ),
    Case("tail_call", "W15", "feature_refused", None, {"extra": "(func $again (return_call $again))"}),
    Case("exceptions", "W15", "feature_refused", None, {"extra": "(tag $t) (func (throw $t))"}),
    Case(
        "gc_types",
        "W15",
        "feature_refused",
        None,
        {"extra": "(type $s (struct (field i32))) (func (drop (struct.new_default $s)))"},
    ),
    # Odd, and allowed.
    Case(
        "start_reports",
        "C60",
        None,
        None,
        {"imports": PROGRESS, "extra": "(func $begin (call $on_progress (i32.const 96) (i32.const 2)))(start $begin)"},
    ),
    Case(
        "table_grows",
        "",
        None,
        None,
        {"extra": "(table 1 10 funcref) (func (result i32) (table.grow (ref.null func) (i32.const 1)))"},
    ),
    Case(
        "bad_reports",
        "C61 W10",
        None,
        None,
        reports(
            b"\xff\xff",
            b"[]",
            b"{}",
            b'{"processedExamples":-1}',
            b'{"processedExamples":500,"totalExamples":128}',
            b'{"processedExamples":1,"metrics":{"loss":NaN}}',
            calls="(call $on_progress (i32.const 65530) (i32.const 100))"
            "(call $on_progress (i32.const -1) (i32.const -1))",
        ),
    ),
    Case(
        "falling_reports",
        "C61",
        None,
        None,
        reports(
            b'{"processedExamples":5,"totalExamples":8}',
            b'{"processedExamples":4,"totalExamples":8}',
            b'{"processedExamples":8,"totalExamples":8}',
        ),
    ),
    Case(
        "flood_of_reports",
        "W10 C61",
        None,
        None,
        {
            "imports": PROGRESS,
            "extra": '(data (i32.const 2048) "{\\22processedExamples\\22:1}")',
            **does(
                "train",
                "(local $n i32) (loop $more (call $on_progress (i32.const 2048) (i32.const 23))"
                "(local.set $n (i32.add (local.get $n) (i32.const 1)))"
                "(br_if $more (i32.lt_u (local.get $n) (i32.const 20000))))" + TRAINED,
            ),
        },
    ),
    Case(
        "alloc_grows_memory",
        "C55",
        None,
        None,
        alloc(
            "(local $at i32) (local.set $at (i32.mul (memory.size) (i32.const 65536)))"
            "(drop (memory.grow (i32.const 1))) (local.get $at)"
        ),
    ),
    Case("train_grows_memory", "C55", None, None, does("train", "(drop (memory.grow (i32.const 3))) " + TRAINED)),
    Case("memory_without_maximum", "", None, None, {"memory": '(memory (export "memory") 1)'}),
)
BY_NAME = {case.name: case for case in CASES}

WEIGHTS_AT_2_GIB = Case(
    "weights_at_2_gib",
    "",
    None,
    parts={
        "memory": '(memory (export "memory") 32769 65536)',
        **says("createInitialWeights", b'{"pointer":2147483648,"bytes":16}'),
    },
)
"""Not among the cases: it needs 2 GiB of address space, though hardly any of it is touched."""
