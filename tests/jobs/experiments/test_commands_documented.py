"""docs/simulate.md names every option of the three commands."""

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["simulate", "predict", "reproduce"])
def test_every_option_is_documented(name):
    parser = ArgumentParser(add_help=False)
    import_module(f"jobs.management.commands.{name}").Command().add_arguments(parser)
    options = [option for action in parser._actions for option in action.option_strings]
    section = PAGE[PAGE.index(f"`manage.py {name} ") :]
    assert options and [option for option in options if f"`{option}" not in section] == []
