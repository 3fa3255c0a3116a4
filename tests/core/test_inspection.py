"""What a look at a data file finds, and what is suggested for it."""

import io
import json
import zipfile
from dataclasses import asdict

import numpy as np
import pytest

from weei_core.errors import Invalid
from weei_core.generator.inspection.found import Found
from weei_core.generator.inspection.inspect import inspect
from weei_core.generator.request import PackageRequest
from weei_core.generator.suggestion import estimated, suggested

FLOWERS = "id,sepal,petal,species\n1,5.1,1.4,setosa\n2,7.0,4.7,versicolor\n3,6.3,6.0,setosa\n"


@pytest.fixture
def look(tmp_path):
    def looked(data, name="data.csv", data_format="", report=None):
        path = tmp_path / "source"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return inspect(path, name, data_format, report)

    return looked


def zipped(files):
    with io.BytesIO() as made:
        with zipfile.ZipFile(made, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return made.getvalue()


def arrays(**named):
    with io.BytesIO() as made:
        np.savez(made, **named)
        return made.getvalue()


def sizes(found):
    return estimated(PackageRequest.parse(suggested(found, "a model")), found).architecture


def test_a_table_is_shown_with_its_columns_rows_and_classes(look):
    found = look(FLOWERS)
    assert (found.format, found.records, found.label, found.delimiter) == ("csv", 3, "species", ",")
    assert [(c.name, c.numbers, c.whole, c.distinct) for c in found.columns] == [
        ("id", True, True, 3),
        ("sepal", True, False, 3),
        ("petal", True, False, 3),
        ("species", False, False, 2),
    ]
    assert found.classes == (("setosa", 2), ("versicolor", 1))
    assert found.rows[0] == ("1", "5.1", "1.4", "setosa")


def test_a_number_of_the_row_is_not_suggested_as_an_input(look):
    found = look(FLOWERS)
    assert suggested(found, "flowers")["data"]["columns"] == ["sepal", "petal"]
    assert (sizes(found).inputs, sizes(found).outputs) == (2, 2)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_and_a_byte_order_mark_are_read(look, delimiter):
    found = look("\ufeff" + FLOWERS.replace(",", delimiter), "data.txt", "csv")
    assert (found.delimiter, found.columns[0].name) == (delimiter, "id")
    PackageRequest.parse(suggested(found, "flowers"))


def test_all_rows_are_counted_and_classes_too(look):
    rows = "".join(f"{n},{n % 3}\n" for n in range(5_000))
    told = []
    found = look("value,label\n" + rows, report=lambda done, total: told.append((done, total)))
    assert (found.records, dict(found.classes)) == (5_000, {"0": 1_667, "1": 1_667, "2": 1_666})
    assert told[-1] == (found.bytes, found.bytes)


def test_a_label_of_many_numbers_is_a_quantity(look):
    found = look("rooms,price\n" + "".join(f"{n % 7},{n * 1000}\n" for n in range(1, 100)))
    assert suggested(found, "houses")["data"]["task"] == "regression"
    assert sizes(found).outputs == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1\n1,2,3\n", "The table must hold rows of 2 cells below its header, as that has; found none."),
        ("a,a\n1,2\n", 'Columns must have different names; found "a" twice.'),
        ("a,\n1,2\n", "Every column must have a name; column 2 has none."),
        ("1,2\n3,4\n", "The first line must name the columns; it holds only numbers."),
        ("a,b\n", "The table must hold rows of 2 cells below its header, as that has; found none."),
        ("one\n1\n", "The first line must name at least two columns"),
        ('a,b\n"1,2\n', "Line 2 is not a row of a table"),
        (b"a,b\n1,\xff\n", "Line 2 must be UTF-8; byte 3 of it is none."),
        ("", "it is empty"),
        pytest.param(zipped({"a": b""}), "csv data must be text in UTF-8; the file is an archive.", id="an archive"),
    ],
)
def test_what_is_no_table_is_refused_by_its_line(look, text, said):
    with pytest.raises(Invalid, match="^" + said.replace("(", r"\(") if said[0].isupper() else said):
        look(text, data_format="csv")


def test_a_few_cells_that_are_no_numbers_do_not_take_a_column_away(look):
    """Making the package names their lines; a column that is left out silently would not be missed."""
    rows = "".join(f"{n if n % 20 else '?'},{'ab'[n % 2]}\n" for n in range(200))
    found = look("value,label\n" + rows + "1,2,3\n")
    assert (found.columns[0].numbers, found.columns[1].numbers, found.records) == (True, False, 200)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(look):
    with pytest.raises(Invalid, match="Line 1 must have at most 1048576 bytes"):
        look(b"a," * 2**20)


def test_json_lines_are_shown_by_the_fields_that_they_share(look):
    lines = [{"question": "2+2=", "answer": "4", "n": 1}, {"question": "1+2=", "answer": "3"}]
    found = look("\n".join(map(json.dumps, lines)) + "\n\n", "sums.jsonl")
    assert (found.format, found.records, [c.name for c in found.columns]) == ("jsonl", 2, ["question", "answer"])
    assert found.characters == len(set("2+2=41+2=3"))
    request = PackageRequest.parse(suggested(found, "sums"))
    assert (request.data.prompt, request.data.answer, request.tokenizer.end_token) == ("question", "answer", "<end>")


@pytest.mark.parametrize("line", ["[1]", '{"a": 1}', "{"])
def test_json_lines_without_text_are_refused(look, line):
    with pytest.raises(Invalid, match="(?i)line"):
        look(line, "a.jsonl")


def test_text_is_counted_by_lines_and_characters(look):
    found = look("Grüße\nund mehr", "poem.txt")
    assert (found.format, found.records, found.characters) == ("text", 2, len(set("Grüße\nund mehr")))
    assert found.rows == (("Grüße",), ("und mehr",))
    assert sizes(found).vocab_size == 256


def test_text_that_is_not_utf8_is_refused_by_its_line(look):
    with pytest.raises(Invalid, match="line 3"):
        look("eins\nzwei\nfünf".encode("latin-1"), "poem.txt")
    with pytest.raises(Invalid, match="line 1"):
        look("fü".encode()[:-1], "poem.txt")


def test_arrays_are_shown_by_shape_without_being_read(look):
    found = look(arrays(x=np.zeros((7, 4, 3), np.uint8), y=np.arange(7)), "data.npz")
    assert [(c.name, c.shape, c.type) for c in found.columns] == [("x", (7, 4, 3), "uint8"), ("y", (7,), "int64")]
    assert (found.records, found.label, sizes(found).inputs) == (7, "y", 12)


def test_arrays_of_objects_are_refused(look):
    with pytest.raises(Invalid, match="Python objects"):
        look(arrays(x=np.array([{}], dtype=object)), "data.npz")
    with pytest.raises(Invalid, match="not a NumPy array"):
        look(zipped({"x.npy": b"nothing of the kind"}), "data.npz")


def test_pictures_are_counted_by_their_folders(look):
    found = look(zipped({"set/cats/1.png": b"", "set/cats/2.png": b"", "set/dogs/1.JPG": b"", "readme": b""}), "a.zip")
    assert (found.format, found.records, found.classes) == ("images", 3, (("cats", 2), ("dogs", 1)))
    assert sizes(found).outputs == 2
    with pytest.raises(Invalid, match="in at least two folders"):
        look(zipped({"cats/1.png": b""}), "a.zip")


def test_the_kind_is_told_by_the_contents_where_the_name_says_nothing(look):
    assert look('{"text": "a"}\n', "data").format == "jsonl"
    assert look("hello", "data").format == "text"
    assert look(arrays(x=np.zeros(2), y=np.zeros(2)), "data.zip.bak").format == "npz"
    with pytest.raises(Invalid, match="cannot be read"):
        look(b"PK\3\4 and nothing more", "a.zip")


def test_what_was_found_is_kept_as_json(look):
    for found in (look(FLOWERS), look(arrays(x=np.zeros((2, 2)), y=np.zeros(2)), "a.npz"), look("a b", "a.txt")):
        assert Found.from_json(json.loads(json.dumps(asdict(found)))) == found
