"""The command line is what docs/agent.md says."""

from pathlib import Path

from weei_agent.options import _parser
from weei_agent.outcomes import Exit

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()


def test_every_option_is_documented():
    names = [name for action in _parser()._actions for name in action.option_strings if name.startswith("--")]
    assert len(names) > 10
    assert [name for name in names if f"`{name}" not in PAGE] == []


def test_every_exit_code_is_documented():
    assert [code for code in Exit if f"| {int(code)} |" not in PAGE] == []
