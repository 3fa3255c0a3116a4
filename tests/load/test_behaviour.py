from collections import Counter

import pytest

from tests.load.behaviour import Behaviour


def test_faults_come_at_their_rates_and_again_with_the_same_seed():
    behaviour = Behaviour(drop_out=0.1, bad=0.05)
    found = [behaviour.fault(1, index, 2, "c3") for index in range(4000)]
    counted = Counter(found)
    assert counted["drop_out"] == pytest.approx(400, abs=80) and counted["bad"] == pytest.approx(200, abs=60)
    assert counted[None] == 4000 - counted["drop_out"] - counted["bad"]
    assert found == [behaviour.fault(1, index, 2, "c3") for index in range(4000)]
    assert found != [behaviour.fault(2, index, 2, "c3") for index in range(4000)]


def test_a_behaviour_that_there_is_not_is_refused_by_name():
    with pytest.raises(ValueError, match="has no dropout; it has .*drop_out"):
        Behaviour.read({"dropout": 0.1})
