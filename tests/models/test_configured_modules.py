"""The configured modules of the contract suite are what the generator makes of the committed base modules."""

from tests.models.configured.make import HERE, files


def test_the_files_are_current():
    for name, content in files().items():
        assert (HERE / name).read_bytes() == content, f"{name}: python -m tests.models.configured.make"
