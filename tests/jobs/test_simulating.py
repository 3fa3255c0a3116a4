"""Jobs without database and network. tests/stack and tests/browser compare them with real ones."""

import struct
from pathlib import Path

import pytest

from jobs.services.simulating import Simulation
from tests.models import auxiliary
from weei_core.errors import Conflict, Invalid

REFERENCE = Path(__file__).resolve().parents[2] / "reference_models"
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


def test_a_round_without_a_finished_unit_ends_it_with_a_sentence(tmp_path):
    with pytest.raises(Conflict, match="Round 1: nobody finished a unit"):
        simulate(tmp_path, settings={"batchSize": 9})


def test_settings_are_checked_as_for_a_job(tmp_path):
    with pytest.raises(Invalid, match="unitsPerAssignment"):
        simulate(tmp_path, settings={"experience": {"unitsPerAssignment": 5000}})


def test_a_dataset_model_is_refused(tmp_path):
    module = REFERENCE / "digits" / "digits.wasm"
    with pytest.raises(Conflict, match="make their own data"):
        Simulation(module, tmp_path, settings=SETTINGS, job_seed=1, participants=1)
