"""Readers: what each format gives, and which rows, files and archives are refused in which words."""

import io
import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from weei_core.errors import Invalid
from weei_core.generator.readers import archive, classes, images, text
from weei_core.generator.readers.csv import CsvTable
from weei_core.generator.readers.images import ImageTable
from weei_core.generator.readers.jsonl import JsonLineRecords
from weei_core.generator.readers.npz import NpzTable
from weei_core.generator.readers.text import LineRecords, Pieces
from weei_core.generator.records import BadRows
from weei_core.generator.request import CsvData, ImagesData, JsonLinesData, NpzData


@pytest.fixture
def bad():
    return BadRows()


@pytest.fixture
def put(tmp_path):
    def write(content):
        path = tmp_path / "data"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(bad):
    with pytest.raises(Invalid) as error:
        bad.refuse()
    return error.value.message


def together(table):
    rows = list(table)
    return np.concatenate([r.inputs for r in rows]), np.concatenate([r.targets for r in rows])


# --- Text ---


def test_lines_have_numbers_and_no_ends(put, bad):
    source = LineRecords(put("\ufeffone\r\n\n  \ntwo\n\nthree"), bad)
    assert list(source) == [(1, ("one",)), (4, ("two",)), (6, ("three",))] == list(source.sampled())
    assert source.progress()[0] == source.progress()[1]


def test_lines_that_are_not_utf8_are_told_by_number(put, bad):
    assert [line for line, _ in LineRecords(put(b"a\nb\xff\nc\n\xe2\x82"), bad)] == [1, 3]
    assert "found 2 that are not: line 2 is not UTF-8 at its byte 2; line 4 is not UTF-8" in refused(bad)


def test_a_line_without_end_is_refused_before_it_fills_memory(put, bad):
    with pytest.raises(Invalid, match="line 2 has more than 1048576 bytes"):
        list(LineRecords(put(b"a\n" + b"x" * (text.MAX_LINE_BYTES + 2)), bad))


@pytest.mark.parametrize("content", [
    "a\n" * 700, "é" * 900, "x" * 1500, "<EOS>" * 300, "ab<EOS>" * 200, "😀<EOS>€" * 150, "", "\ufeffab",
])  # fmt: skip
@pytest.mark.parametrize("size", [16, 64, 101])
def test_pieces_make_the_text_and_cut_no_special_token(monkeypatch, put, content, size):
    monkeypatch.setattr(text, "PIECE_BYTES", size)
    pieces = [piece.parts[0] for piece in Pieces(put(content), ["<EOS>", "OS><"])]
    assert "".join(pieces) == content.removeprefix("\ufeff")
    assert sum(piece.count("<EOS>") for piece in pieces) == content.count("<EOS>")
    assert all(len(piece.encode()) <= 3 * size for piece in pieces)


def test_text_that_is_not_utf8_is_refused_by_line(put):
    with pytest.raises(Invalid, match="a byte in line 3 that is not: 0xff"):
        list(Pieces(put(b"a\nb\nc\xffd\n"), []))


def test_samples_are_spread_over_the_file(monkeypatch, put, bad):
    monkeypatch.setattr(text, "SAMPLE_BYTES", 1600)
    path = put("".join(f"line é {number:05}\n" for number in range(5000)))
    lines = [record.parts[0] for record in LineRecords(path, bad).sampled()]
    assert all(line.startswith("line é ") and len(line) == 12 for line in lines) and 80 < len(lines) < 140
    numbers = [int(line[-5:]) for line in lines]
    assert numbers[0] == 0 and numbers[-1] > 4600 and numbers == sorted(set(numbers))
    source = Pieces(path, [])
    assert "\ufffd" not in "".join(piece.parts[0] for piece in source.sampled())
    assert source.progress()[0] <= 1600


# --- JSON lines ---


def test_json_lines_give_prompt_and_answer_or_text(put, bad):
    path = put('{"prompt": "1+1=", "answer": "2", "note": 3}\n\n{"prompt": "é", "answer": ""}\n')
    assert list(JsonLineRecords(path, JsonLinesData(), bad)) == [(1, ("1+1=", "2")), (3, ("é", ""))]
    assert [r.parts for r in JsonLineRecords(path, JsonLinesData(None, None, "prompt"), bad)] == [("1+1=",), ("é",)]
    assert not bad.found


def test_json_lines_that_cannot_be_used_are_told_by_number(put, bad):
    lines = ['{"prompt": "a", "answer": "b"}', "{", "[1]", '{"prompt": "a"}', '{"prompt": 1, "answer": "b"}', "NaN",
             '{"prompt": "\\ud800", "answer": ""}', '{"prompt": "a", "prompt": "b", "answer": ""}']  # fmt: skip
    assert len(list(JsonLineRecords(put("\n".join(lines)), JsonLinesData(), bad))) == 1
    assert [row for row, _ in bad.found] == ["2", "3", "4", "5", "6", "7", "8"]
    message = refused(bad)
    reasons = [
        "line 2 is not valid JSON: ",
        "line 3 must be an object; found a list",
        'line 4 has no field "answer"',
        'line 5 must have text in "prompt"; found 1',
        "line 7 is not valid JSON: a text holds the lone",
        'line 8 is not valid JSON: the key "prompt" appears twice',
    ]
    for reason in reasons:
        assert reason in message


def test_the_first_twenty_are_listed_and_all_are_counted(bad):
    for line in range(1, 26):
        bad.add(line, "is odd")
    with pytest.raises(Invalid, match="found 25 that are not: line 1 is odd; .*line 20 is odd; and 5 more") as error:
        bad.refuse()
    assert error.value.code == "bad_rows" and len(error.value.extra["rows"]) == 25


def test_a_file_of_wrong_rows_is_not_read_to_its_end(bad):
    with pytest.raises(Invalid, match="found at least 1000 that are not"):
        for line in range(10**9):
            bad.add(line, "is odd")


# --- CSV ---


def test_a_table_gives_numbers_and_classes(put, bad):
    path = put('a,"b, c",kind\n1, 2.5 ,yes\n\n-3e2,.5,no\n+4,5.,"yes"\n')
    table = CsvTable(path, CsvData("kind"), bad)
    inputs, targets = together(table)
    assert table.columns == ("a", "b, c") and inputs.dtype == np.float32
    assert inputs.tolist() == [[1, 2.5], [-300, 0.5], [4, 5]]
    assert targets.tolist() == [0, 1, 0] and table.classes.ordered()[0] == ["no", "yes"]
    assert table.classes.ordered()[1].tolist() == [1, 0]
    assert table.first(2) == (("a", "b, c", "kind"), (("1", " 2.5 ", "yes"), ("-3e2", ".5", "no")))


def test_a_regression_and_chosen_columns(put, bad):
    table = CsvTable(put("a;b;y\n1;x;2\n3;;4\n"), CsvData("y", "regression", ("a",), ";"), bad)
    inputs, targets = together(table)
    assert (inputs.tolist(), targets.tolist(), targets.dtype) == ([[1], [3]], [[2], [4]], np.float32)


def test_whole_number_classes_stand_in_their_own_order(put, bad):
    table = CsvTable(put("a,y\n1,10\n1,9\n1,-1\n"), CsvData("y"), bad)
    list(table)
    assert table.classes.ordered()[0] == ["-1", "9", "10"]


@pytest.mark.parametrize("cell, reason", [
    ("", 'has no value in column "b"'), ("  ", 'has no value in column "b"'),
    ("NA", 'must have a number in column "b"; found "NA"'), ("nan", 'found "nan"'), ("inf", 'found "inf"'),
    ("1_0", 'found "1_0"'), ("٣", 'found "٣"'), ("1e39", "a 32-bit float cannot hold"), ("1e999", "cannot hold"),
    ("1 2", 'found "1 2"'), ("0x1", "found"), ("e", "found"), ("-", "found"), ("1,2", "has 4 cells; the header has 3"),
])  # fmt: skip
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_cells_that_are_no_numbers_are_told_by_line(put, bad, cell, reason, task):
    table = CsvTable(put(f"a,b,y\n1,2,3\n\n1,{cell},3\n1,2,4\n"), CsvData("y", task), bad)
    assert len(together(table)[0]) == 2
    assert "found 1 that is not: line 4 " in refused(bad) and reason in refused(bad)


def test_lines_are_counted_in_the_file_also_behind_bad_bytes_and_quoted_line_ends(put, bad):
    path = put(b'a,y\n1,"two\nlines"\nx,1\n\xff,1\nz,1\n')
    assert list(CsvTable(path, CsvData("y"), bad)) == []
    assert [row for row, _ in bad.found] == ["3", "4", "5", "6"]


def test_quotes_that_never_end_are_refused(put, bad):
    table = CsvTable(put('a,y\n1,"2\n3,4\n'), CsvData("y"), bad)
    with pytest.raises(Invalid, match="line 3 is not a row of a table: unexpected end of data"):
        list(table)


@pytest.mark.parametrize("content, data, reason", [
    ("", CsvData("y"), "must have a header row"),
    ("a,,y\n", CsvData("y"), "column 2 has none"),
    ("a,a,y\n", CsvData("y"), 'found "a" twice'),
    ("a,y\n", CsvData("z"), 'data.label must name columns of the table, which has "a", "y"; found "z"'),
    ("a,y\n", CsvData("y", columns=("b",)), 'data.columns must .* found "b"'),
    ("y\n", CsvData("y"), "a column beside the label"),
])  # fmt: skip
def test_headers_that_do_not_fit_are_refused(put, bad, content, data, reason):
    with pytest.raises(Invalid, match=reason):
        CsvTable(put(content), data, bad)


def test_a_label_of_too_many_values_is_told(monkeypatch, put, bad):
    monkeypatch.setattr(classes, "MAX_CLASSES", 3)
    list(CsvTable(put("a,y\n" + "".join(f"1,{n}\n" for n in range(5))), CsvData("y"), bad))
    assert 'line 5 has class "3" beyond the 3 that are allowed. Is the label a quantity?' in refused(bad)


# --- NPZ ---


def npz(tmp_path, save=np.savez, **arrays):
    path = tmp_path / "data.npz"
    save(path, **arrays)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_in_blocks(monkeypatch, tmp_path, bad, save):
    monkeypatch.setattr("weei_core.generator.readers.npz.BLOCK_BYTES", 100)
    x = np.arange(60, dtype=">f8").reshape(20, 3)
    table = NpzTable(npz(tmp_path, save, x=x, y=np.arange(20, dtype=np.int16) % 3), NpzData(), bad)
    inputs, targets = together(table)
    assert (table.task, table.input_kind, table.shape) == ("classification", "float32", None)
    assert inputs.dtype == np.float32 and (inputs == x).all() and targets.tolist() == [n % 3 for n in range(20)]
    assert table.progress() == (20, 20)


def test_bytes_stay_bytes_and_have_the_shape_of_pictures(tmp_path, bad):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    table = NpzTable(npz(tmp_path, x=x, y=np.array(["b", "a"])), NpzData(), bad)
    inputs, _ = together(table)
    assert (table.input_kind, table.shape, inputs.dtype) == ("uint8", (3, 4, 1), np.uint8)
    assert inputs.tolist() == x.reshape(2, 12).tolist() and table.classes.names == ["b", "a"]


def test_several_targets_make_a_regression(tmp_path, bad):
    y = np.array([[1, 2], [3, 4.5]])
    table = NpzTable(npz(tmp_path, x=np.ones((2, 1)), y=y), NpzData(), bad)
    assert table.task == "regression" and table.outputs == ("y[0]", "y[1]") and (together(table)[1] == y).all()


@pytest.mark.parametrize("arrays, data, reason", [
    ({"x": np.ones((2, 1))}, NpzData(), 'an array "y"; found "x"'),
    ({"x": np.ones((2, 1)), "y": np.ones(3)}, NpzData(), "as many records, at least one; found 2 and 3"),
    ({"x": np.ones((0, 1)), "y": np.ones(0)}, NpzData(), "at least one; found 0 and 0"),
    ({"x": np.array([["a"]]), "y": np.ones(1)}, NpzData(), "x must hold numbers; found text of type <U1"),
    ({"x": np.ones((1, 1), complex), "y": np.ones(1)}, NpzData(), "x must hold numbers; found values of type complex"),
    ({"x": np.array([[{}]]), "y": np.ones(1)}, NpzData(), "found Python objects, which are never loaded"),
    ({"x": np.asfortranarray(np.ones((2, 2))), "y": np.ones(2)}, NpzData(), "row by row .C order.; found Fortran"),
    ({"x": np.ones((2, 1)), "y": np.ones(2)}, NpzData("classification"), "one whole number or text for each record"),
    ({"x": np.ones((2, 1)), "y": np.ones((2, 2), int)}, NpzData(), "one whole number or text"),
    ({"x": np.ones((2, 1)), "y": np.array(["a", "b"])}, NpzData("regression"), "numbers for a regression; found text"),
    ({"x": np.ones(()), "y": np.ones(2)}, NpzData(), "x must have a value for each record"),
])  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(tmp_path, bad, arrays, data, reason):
    with pytest.raises(Invalid, match=reason):
        NpzTable(npz(tmp_path, x=arrays.pop("x"), **arrays), data, bad)


def test_records_that_are_not_finite_are_told(tmp_path, bad):
    table = NpzTable(
        npz(tmp_path, x=np.array([[1.0], [np.nan], [1e300], [2]]), y=np.array([1, 2, np.inf, 4])), NpzData(), bad
    )
    assert len(together(table)[0]) == 2
    message = refused(bad)
    assert "record 2 must have finite 32-bit numbers in x; found nan" in message and "record 3 must" in message


def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path, bad):
    path = npz(tmp_path, x=np.ones((2, 1)), y=np.ones(2))
    with zipfile.ZipFile(path) as whole:
        x, y = whole.read("x.npy"), whole.read("y.npy")
    with zipfile.ZipFile(path, "w") as changed:
        changed.writestr("x.npy", x.replace(b"(2, 1)", b"(9, 1)"))
        changed.writestr("y.npy", y)
    with pytest.raises(Invalid, match="x must have 200 bytes for numbers of type float64, 9 × 1; found 144"):
        NpzTable(path, NpzData(), bad)


# --- Pictures and archives ---


def picture(colour, size=(6, 4), mode="RGB", form="PNG"):
    content = io.BytesIO()
    Image.new(mode, size, colour).save(content, form)
    return content.getvalue()


def zipped(tmp_path, members, **options):
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w", **options) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path


def test_pictures_become_rows_of_one_size(tmp_path, bad):
    path = zipped(tmp_path, {
        "set/dog/b.png": picture((255, 0, 0)), "set/cat/a.jpg": picture((0, 0, 0), form="JPEG"),
        "set/cat/c.png": picture((0, 0, 255, 0), mode="RGBA"), "__MACOSX/set/._a.png": b"junk",
        "set/.DS_Store": b"junk",
    })  # fmt: skip
    table = ImageTable(path, ImagesData(2, 3, 3), bad)
    inputs, targets = together(table)
    assert table.shape == (3, 2, 3) and inputs.shape == (3, 18) and inputs.dtype == np.uint8
    assert table.first(9).rows == (("set/cat/a.jpg", "cat"), ("set/cat/c.png", "cat"), ("set/dog/b.png", "dog"))
    assert inputs[0].max() < 3 and set(inputs[1].tolist()) == {255} and inputs[2].tolist() == [255, 0, 0] * 6
    assert targets.tolist() == [0, 0, 1] and table.classes.names == ["cat", "dog"]
    grey, _ = together(ImageTable(path, ImagesData(2, 3, 1), bad))
    assert grey[2].tolist() == [76] * 6


def test_files_that_are_no_pictures_are_told(monkeypatch, tmp_path, bad):
    monkeypatch.setattr(images, "MAX_PIXELS", 100)
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 5000)
    path = zipped(tmp_path, {
        "a/ok.png": picture(0), "a/text.txt": b"hello", "b/cut.png": picture(0)[:45], "b/wide.png": picture(0, (99, 2)),
        "b/large.png": bytes(6000),
    })  # fmt: skip
    assert len(together(ImageTable(path, ImagesData(2, 2), bad))[0]) == 1
    message = refused(bad)
    assert 'file "a/text.txt" must be a picture (PNG, JPEG, WEBP, GIF, BMP); found something else' in message
    assert 'file "b/cut.png" must be a picture that can be read' in message
    assert 'file "b/wide.png" must have at most 100 pixels; found 99 × 2' in message
    assert 'file "b/large.png" must have at most 5000 bytes; found 6000' in message


@pytest.mark.parametrize("names, reason", [
    (["a.png", "cat/a.png"], 'one folder for each class, as in cats/1.png; found "a.png"'),
    (["x/y/z/a.png"], "one folder for each class"),
    (["train/cat/a.png", "test/cat/a.png"], "one folder for each class"),
    (["../cat/a.png"], 'plain relative paths; found "../cat/a.png"'),
    (["cat/../../a.png"], "plain relative paths"),
    (["/cat/a.png"], "plain relative paths"),
    (["cat\\a.png"], "plain relative paths"),
    (["C:/cat/a.png"], "plain relative paths"),
    ([], "must hold pictures in class folders; found none"),
])  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(tmp_path, bad, names, reason):
    with pytest.raises(Invalid, match=reason):
        ImageTable(zipped(tmp_path, dict.fromkeys(names, picture(0))), ImagesData(), bad)


def test_archives_that_unpack_to_too_much_are_refused(monkeypatch, tmp_path, bad):
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 10**6)
    path = zipped(tmp_path, {"a/1.png": bytes(2 * 10**6)}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 5000
    with pytest.raises(Invalid, match="must unpack to at most 1000000 bytes"):
        ImageTable(path, ImagesData(), bad)
    monkeypatch.setattr(archive, "MAX_DIRECTORY_BYTES", 10)
    with pytest.raises(Invalid, match="table of contents must have at most 10 bytes; found"):
        ImageTable(path, ImagesData(), bad)


def test_a_member_that_holds_more_than_it_says_is_not_read_on(tmp_path, bad):
    """Its claimed size lets it in; no more than that is unpacked."""
    path = zipped(tmp_path, {"a/1.png": bytes(10**6), "b/1.png": picture(0)}, compression=zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    path.write_bytes(content.replace((10**6).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    try:
        list(ImageTable(path, ImagesData(), bad))
    except Invalid:
        pass
    else:
        assert [row for row, _ in bad.found] == ['"a/1.png"']


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no zip at all", b"PK\x05\x06" + bytes(3), b"PK\x05\x06" + b"\xff" * 18]
)
def test_what_is_no_zip_is_refused(put, bad, content):
    for reader in (lambda path: ImageTable(path, ImagesData(), bad), lambda path: NpzTable(path, NpzData(), bad)):
        with pytest.raises(Invalid, match="zip archive that can be read|table of contents"):
            reader(put(content))


def test_encrypted_and_oddly_packed_archives_are_refused(tmp_path, bad):
    path = zipped(tmp_path, {"a/1.png": picture(0)}, compression=zipfile.ZIP_BZIP2)
    with pytest.raises(Invalid, match="must be stored or deflated"):
        ImageTable(path, ImagesData(), bad)
    path = zipped(tmp_path, {"a/1.png": picture(0)})
    content = bytearray(path.read_bytes())
    content[content.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))
    with pytest.raises(Invalid, match="must not be encrypted"):
        ImageTable(path, ImagesData(), bad)


def test_a_member_whose_check_sum_is_wrong_is_told(tmp_path, bad):
    path = zipped(tmp_path, {"a/1.png": picture(0), "b/1.png": picture(9)})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"IDAT", b"IDAX", 1))
    assert len(together(ImageTable(path, ImagesData(2, 2), bad))[0]) == 1
    assert bad.found[0][0] == json.dumps("a/1.png")
