"""A preview says how far it is, as the making of a package does."""

import pytest

from tests.core.generator.test_generator_package import MLP, SMALL, asked
from weei_core.generator.package import preview

CASES = {
    "text": ("words and words again. " * 400, {"format": "text"}, {"kind": "bpe", "merges": 20}),
    "lines": ("a line of it\n" * 300, {"format": "text", "records": "lines"}, {"kind": "characters"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_preview_tells_its_steps_in_order(tmp_path, case):
    text, data, tokenizer = CASES[case]
    source = tmp_path / "source.txt"
    source.write_text(text)
    told = []
    preview(asked(SMALL, data, tokenizer), source, lambda *step: told.append(step))
    assert told == [("look", 0, 3), ("look", 1, 3), ("look", 2, 3)]


def test_a_preview_of_a_table_tells_how_much_it_read(tmp_path):
    source = tmp_path / "source.csv"
    source.write_text("a,b,kind\n" + "".join(f"{n},{n % 7},{'xy'[n % 2]}\n" for n in range(3000)))
    told = []
    request = asked(MLP, {"format": "csv", "label": "kind"})
    preview(request, source, lambda *step: told.append(step))
    assert {stage for stage, _, _ in told} == {"look"}
    parts = [done / total for _, done, total in told]
    assert parts == sorted(parts) and parts[-1] == 1
