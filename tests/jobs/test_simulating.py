"""Jobs without database and network. tests/stack and tests/browser compare them with real ones."""

import struct

import pytest

from jobs.services.simulating import Simulation
from tests.models import auxiliary
from weei_core.errors import Conflict, Invalid

SETTINGS = {
    "epochs": 4,
    "localEpochs": 1,
    "batchSize": 1,
    "coordinatorParticipates": False,
    "validationSchedule": {"enabled": True, "unit": "round", "every": 2},
}


def simulate(folder, **options):
    folder.mkdir(exist_ok=True)
    settings = SETTINGS | options.pop("settings", {})
    chosen = {"job_seed": 5, "participants": 3, "files": {"reward": auxiliary.REWARD}, **options}
    with Simulation(auxiliary.MODULE, folder, settings=settings, **chosen) as simulation:
        return list(simulation.run())


def first_weight(made):
    return struct.unpack_from("<f", made.weights.read_bytes())[0]


def test_there_is_a_checkpoint_before_the_first_round_and_one_after_each(tmp_path):
    made = simulate(tmp_path)
    assert [checkpoint.round for checkpoint in made] == [0, 1, 2, 3, 4]
    assert [checkpoint.units for checkpoint in made] == [0, 18, 18, 18, 18]
    assert [checkpoint.evaluation is not None for checkpoint in made] == [True, False, True, False, True]


def test_the_number_of_processes_changes_nothing(tmp_path):
    one, three = (simulate(tmp_path / str(count), processes=count) for count in (1, 3))
    assert [made.sha256 for made in one] == [made.sha256 for made in three]


def test_the_seed_and_the_division_do(tmp_path):
    begin = simulate(tmp_path / "a")
    other = simulate(tmp_path / "b", job_seed=6)
    divided = simulate(tmp_path / "c", device=3, settings={"workers": 3})
    assert len({run[-1].sha256 for run in (begin, other, divided)}) == 3


def test_the_state_of_a_method_goes_on_from_round_to_round(tmp_path):
    """A first step of FedAvgM is FedAvg's, up to rounding; momentum makes the later ones longer."""
    moved = simulate(tmp_path / "a", settings={"aggregation": {"method": "fedavgm", "momentum": 0.9}})
    plain = simulate(tmp_path / "b")
    weights = [[first_weight(run[number]) for number in (0, 1, 3)] for run in (moved, plain)]
    assert weights[0][1] == pytest.approx(weights[1][1])
    assert weights[0][2] - weights[0][0] > 1.5 * (weights[1][2] - weights[1][0])


def test_only_what_is_needed_is_kept_if_asked_for(tmp_path):
    """The slots of this model hold the first checkpoint and that of two rounds ago."""
    momentum = {"aggregation": {"method": "fedavgm"}}
    kept = simulate(tmp_path / "a", settings=momentum)
    lean = simulate(tmp_path / "b", settings=momentum, keep=False)
    assert [made.sha256 for made in lean] == [made.sha256 for made in kept]
    assert {path.name for path in (tmp_path / "b").glob("round-*")} == {f"round-{n}.f32" for n in (0, 2, 3, 4)}
    assert [path.name for path in (tmp_path / "b").glob("state-*")] == ["state-4"]


def test_an_end_before_the_end_stops_what_runs(tmp_path):
    with Simulation(
        auxiliary.MODULE,
        tmp_path,
        settings=SETTINGS,
        job_seed=5,
        participants=3,
        files={"reward": auxiliary.REWARD},
    ) as simulation:
        made = simulation.run()
        assert next(made).round == 0
    with pytest.raises(Exception, match="cancelled|shutdown|ended"):
        next(made)


@pytest.mark.parametrize("name", ["participants", "processes", "device"])
def test_there_is_at_least_one_of_everything(tmp_path, name):
    with pytest.raises(Invalid, match=f"{name} must be .*found 0"):
        simulate(tmp_path, **{name: 0})


def test_a_slot_of_a_file_must_be_filled(tmp_path):
    with pytest.raises(Invalid, match="not filled: reward"):
        simulate(tmp_path, files={})


def test_a_round_without_a_finished_unit_ends_it_with_a_sentence(tmp_path):
    with pytest.raises(Conflict, match="Round 1: nobody finished a unit"):
        simulate(tmp_path, settings={"batchSize": 9})


def test_settings_are_checked_as_for_a_job(tmp_path):
    with pytest.raises(Invalid, match="unitsPerAssignment"):
        simulate(tmp_path, settings={"experience": {"unitsPerAssignment": 5000}})
