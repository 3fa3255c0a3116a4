"""Dataset jobs without database and network. tests/stack compares one with a real job."""

import json
from pathlib import Path

import pytest

from jobs.domain.rounds import After
from jobs.services.simulated_work import ChunkFile
from jobs.services.simulating import Simulation
from tests.models import digits
from weei_core import seeds
from weei_core.errors import Conflict, Invalid

REFERENCE = Path(__file__).resolve().parents[2] / "reference_models"
SETTINGS = {
    "epochs": 2,
    "localEpochs": 1,
    "batchSize": 16,
    "learningRate": 0.05,
    "coordinatorParticipates": False,
    "validationSchedule": {"enabled": True, "unit": "epoch", "every": 2},
}
BANDIT = REFERENCE / "bandit"


def chunks_of(model, manifest="manifest.json"):
    folder = REFERENCE / model / "data"
    entries = json.loads((folder / manifest).read_text())
    return [
        ChunkFile(entry["id"], folder / entry["fileName"], entry["format"], entry["exampleCount"]) for entry in entries
    ]


CHUNKS = chunks_of("digits")
VALIDATION = ChunkFile("validation", digits.FOLDER / "data" / "validation.bin", digits.FORMAT, 297)


def simulation(folder, **options):
    folder.mkdir(exist_ok=True)
    settings = SETTINGS | options.pop("settings", {})
    chosen = {"job_seed": 5, "participants": 5, "chunks": CHUNKS, "validation": VALIDATION, **options}
    return Simulation(digits.FOLDER / "digits.wasm", folder, settings=settings, **chosen)


def simulate(folder, **options):
    with simulation(folder, **options) as one:
        return list(one.run())


def dealt(folder, **options):
    """By round: the pass, and (chunk, first record, records) of every part, as if each round were merged."""
    with simulation(folder, **options) as one:
        rounds, after = [], After.SAME_PASS
        while after != After.COMPLETED:
            parts = one.dealer.deal(len(rounds) + 1)
            standing = one.dealer.closed(len(rounds) + 1, [])
            rounds.append(
                (
                    standing.progress.pass_no,
                    [(part.item.chunk_index, part.item.record_start, part.item.record_count) for part in parts],
                )
            )
            after = standing.after
    return rounds


def whole(*indexes):
    return [(index, 0, 125) for index in indexes]


def test_chunks_go_out_in_manifest_order_and_no_round_mixes_passes(tmp_path):
    """The last round of a pass has two chunks for five participants: they are cut."""
    cut = [(10, 0, 32), (10, 32, 31), (10, 63, 62), (11, 0, 63), (11, 63, 62)]
    one_pass = [whole(0, 1, 2, 3, 4), whole(5, 6, 7, 8, 9), cut]
    assert dealt(tmp_path) == [(number, parts) for number in (0, 1) for parts in one_pass]


def test_nothing_is_cut_beyond_the_parts_that_may_be_open(tmp_path):
    rounds = dealt(tmp_path, max_parts=0, settings={"epochs": 1})
    assert [len(parts) for _, parts in rounds] == [5, 5, 2]


def test_a_first_shuffle_orders_every_pass(tmp_path):
    rounds = dealt(tmp_path, shuffled=True, participants=6)
    order = [index for _, parts in rounds for index, _, _ in parts]
    assert order == seeds.shuffle_order(5, 1, range(12)) * 2


def test_every_checkpoint_is_evaluated_that_the_schedule_names(tmp_path):
    """Every second pass, the first and the last."""
    made = simulate(tmp_path, settings={"epochs": 3})
    assert [one.round for one in made if one.evaluation] == [0, 6, 9]
    assert made[-1].evaluation["accuracy"] > 0.8 > made[0].evaluation["accuracy"]
    assert [one.units for one in made] == [0, *[625, 625, 250] * 3]


def test_without_a_validation_file_nothing_is_evaluated(tmp_path):
    assert not any(one.evaluation for one in simulate(tmp_path, validation=None, settings={"epochs": 1}))


@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "fedadam"])
def test_the_number_of_processes_changes_nothing(tmp_path, method):
    chosen = {"settings": {"aggregation": {"method": method}, "epochs": 1}}
    one, three = (simulate(tmp_path / str(count), processes=count, **chosen) for count in (1, 3))
    assert [(made.sha256, made.state_sha256, made.metrics) for made in one] == [
        (made.sha256, made.state_sha256, made.metrics) for made in three
    ]
    assert len({made.sha256 for made in one}) == len(one)


def test_a_checkpoint_says_what_is_left_of_the_queue(tmp_path):
    made = simulate(tmp_path, settings={"epochs": 1})
    assert [(one.standing.progress.cursor, one.standing.passes) for one in made[1:]] == [(5, 0), (10, 0), (12, 1)]


def test_a_model_that_reads_data_needs_chunks(tmp_path):
    with pytest.raises(Invalid, match="chunks must be given"):
        simulate(tmp_path, chunks=())


def bandit(folder, **options):
    """Experience over records: `epochs` are rounds, passes follow each other until they are done."""
    folder.mkdir(exist_ok=True)
    settings = {"epochs": 5, "localEpochs": 1, "batchSize": 8, "learningRate": 1, "coordinatorParticipates": False}
    settings["validationSchedule"] = {"enabled": True, "unit": "round", "every": 5}
    validation = ChunkFile("validation", BANDIT / "data" / "validation.bin", "bandit-f32-v1", 120)
    chosen = {"settings": settings, "job_seed": 5, "participants": 3, "validation": validation, **options}
    with Simulation(BANDIT / "bandit.wasm", folder, chunks=chunks_of("bandit"), **chosen) as one:
        return list(one.run()), one


def test_units_count_on_over_passes_when_records_are_units(tmp_path):
    made, one = bandit(tmp_path)
    records = sum(chunk.records for chunk in chunks_of("bandit"))
    assert [checkpoint.standing.next_unit for checkpoint in made[1:]] == [0, records, records, 2 * records, 2 * records]
    assert made[-1].evaluation["reward"] > made[0].evaluation["reward"]
    first = one.dealer.deal(6)[0]
    assert first.units.unit_start == 2 * records + first.item.record_start + one.dealer._firsts[first.item.chunk_index]


def test_an_item_without_a_finished_unit_goes_back_to_the_front(tmp_path):
    with simulation(tmp_path, participants=2) as one:
        parts = one.dealer.deal(1)
        standing = one.dealer.closed(1, [parts[0].item])
        assert [item.chunk_index for item in standing.progress.requeued] == [0]
        assert [part.item.chunk_index for part in one.dealer.deal(2)] == [0, 2]


def test_an_item_that_never_finishes_ends_the_simulation(tmp_path):
    with (
        simulation(tmp_path, participants=2) as one,
        pytest.raises(Conflict, match="chunk train-001 came back 3 times"),
    ):
        for number in range(1, 5):
            one.dealer.closed(number, [one.dealer.deal(number)[0].item])
