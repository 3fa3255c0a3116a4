"""The reference models' C sources run natively, where the sanitizers see every access and every overflow."""

import subprocess

import pytest

from tests.c.build import HERE, compile_program

PROGRAMS = sorted(path.stem for path in HERE.glob("*_test.c"))


def test_finds_the_programs():
    assert PROGRAMS == [
        "alloc_test",
        "cartpole_hostile_test",
        "cartpole_policy_test",
        "connect4_hostile_test",
        "connect4_network_test",
        "hostile_test",
        "mlp_hostile_test",
        "mlp_network_test",
        "network_test",
        "text_policy_hostile_test",
        "text_policy_learner_test",
        "text_test",
        "transformer_hostile_test",
        "transformer_layers_test",
        "transformer_network_test",
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_passes(program, tmp_path):
    done = subprocess.run([compile_program(program, tmp_path)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
