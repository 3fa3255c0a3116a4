"""One embedded installation for all tests of this folder: starting one takes longer than most of what they do."""

import pytest

from tests.stack.stack import Stack

# What is lost in a kill is found again sooner than in life, so that the tests wait less. Leases are as in life.
QUICK = {"SWEEP_SECONDS": "1", "MERGE_LEASE_SECONDS": "6"}


@pytest.fixture(scope="session")
def stack():
    with Stack(QUICK) as running:
        yield running
