"""Every code that the programs give stands in weei_core/problems.py with its status, and so in docs/http-api.md."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.test_architecture import ALL
from tests.test_docs import codes
from weei_core import errors
from weei_core.problems import CODES, in_document

ROOT = Path(__file__).parents[2]
HTTP_API = ROOT / "docs" / "http-api.md"


def statuses() -> dict[str, set[int]]:
    """Code → the statuses of the classes that are raised with it, read from the source; a draft may hold any."""
    known = {name: kind.status for name, kind in vars(errors).items() if hasattr(kind, "status")}
    found = {kind.default_code: {kind.status} for kind in vars(errors).values() if hasattr(kind, "default_code")}
    for path in ALL:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
                for word in node.keywords:
                    if word.arg == "code" and isinstance(word.value, ast.Constant):
                        found.setdefault(word.value.value, set()).add(known[node.func.id])
    return found


def test_every_code_of_the_programs_is_listed_and_no_other():
    elsewhere = ("weei_cli/", "weei_client/")  # docs/command-line.md has theirs.
    given = {code for code, path in codes().items() if not path.startswith(elsewhere)}
    # An allocation that the host refuses has its code in a variable.
    assert given | {"memory_limit"} == set(CODES)


def test_the_list_tells_the_status_with_which_a_code_is_raised():
    found = statuses()
    assert len(found) > 25
    wrong = {
        code: (CODES[code].status, raised)
        for code, raised in found.items()
        if code in CODES and CODES[code].status and CODES[code].status not in raised
    }
    assert wrong == {}


def test_the_table_in_the_documentation_is_the_list():
    text = HTTP_API.read_text(encoding="utf-8")
    assert text == in_document(text), "run python -m weei_core.problems"
    assert all(f"| `{code}` |" in text for code in CODES)
