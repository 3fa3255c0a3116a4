"""The command line is what docs/command-line.md says."""

import argparse
import re
from pathlib import Path

import pytest

from weei_cli.export import FORMATS
from weei_cli.main import COMMANDS
from weei_cli.options import make_parser
from weei_cli.outcomes import Exit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
PARSERS = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices


def section(command):
    """The part of the page about one command."""
    found = re.search(rf"^### `weei {command}\b.*?(?=^##|\Z)", PAGE, re.M | re.S)
    assert found, f"weei {command} has no section"
    return found[0]


def test_every_command_is_there():
    assert set(PARSERS) == {*COMMANDS, "login", "logout"}


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_is_documented_where_its_command_is(command):
    common = ("--help", "--url", "--json", "--patience")
    for action in PARSERS[command]._actions:
        assert action.help, (command, action.dest)
        for name in action.option_strings:
            if name.startswith("--"):
                assert f"`{name}" in (PAGE if name in common else section(command)), (command, name)
        for choice in action.choices or ():
            assert f"`{choice}`" in section(command), (command, choice)


def test_nothing_is_documented_that_is_not_there():
    known = {name for parser in PARSERS.values() for action in parser._actions for name in action.option_strings}
    written = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", PAGE))
    assert written - known == {"--version"}


def test_every_exit_code_is_documented():
    assert [code for code in Exit if f"| {int(code)} |" not in PAGE] == []


def test_every_code_of_its_own_is_documented():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "weei_cli").glob("*.py"))
    codes = set(re.findall(r'code="(\w+)"', source))
    codes |= set(re.findall(r'usage\((?:[^()]|\([^()]*\))*, "(\w+)"\)', source)) | {"usage"}
    assert len(codes) > 12
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()


def test_what_does_not_fit_ends_with_2(capsys):
    for arguments in (
        [],
        ["show"],
        ["jobs", "--limit", "0"],
        ["watch", "a", "--every", "0"],
        ["export", "a", "--format", "x"],
    ):
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args(arguments)
        assert ended.value.code == 2
    capsys.readouterr()


def test_help_is_complete(capsys):
    for command, parser in PARSERS.items():
        text = parser.format_help()
        assert f"weei {command}" in text and "common options" in text
    assert len(FORMATS) == 9
