"""The CartPole module's environment against Gymnasium's own, step by step."""

import subprocess

import gymnasium
import numpy as np
import pytest

from tests.c.build import compile_program
from tests.models import cartpole
from tests.models.test_digits_reference import Stream

# Only the sine and the cosine may differ, each by the last place of a double.
TOLERANCE = 1e-12


@pytest.fixture
def environment():
    with gymnasium.make("CartPole-v1") as made:
        yield made


def played(environment, episodes):
    """(state, action, next state, terminated) of episodes under a noisy controller: short ones and long ones."""
    generator, transitions = np.random.default_rng(1), []
    for episode in range(episodes):
        environment.reset(seed=episode)
        noise, ended = generator.uniform(0, 1), False
        while not ended:
            state = environment.unwrapped.state
            leaning = state[2] + 0.5 * state[3] > 0
            action = int(generator.integers(2) if generator.random() < noise else leaning)
            _, reward, terminated, truncated, _ = environment.step(action)
            assert reward == 1
            transitions.append((state, action, environment.unwrapped.state, terminated))
            ended = terminated or truncated
    return transitions


def test_every_step_agrees_with_gymnasium(environment, tmp_path):
    transitions = played(environment, 100)
    assert len(transitions) > 5000 and sum(terminated for *_, terminated in transitions) > 50
    lines = [" ".join([*(float(number).hex() for number in state), str(action)]) for state, action, *_ in transitions]
    program = compile_program("cartpole_steps", tmp_path)
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = [line.split() for line in done.stdout.splitlines()]
    ours = np.array([[float.fromhex(number) for number in answer[:4]] for answer in answers])
    theirs = np.array([after for _, _, after, _ in transitions])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
    assert [answer[4] == "1" for answer in answers] == [terminated for *_, terminated in transitions]


def start_of(seed):
    """The start state that the module draws for unit 0 of this seed: uniform in ±0.05, from 24 random bits each."""
    stream = Stream(seed, 0)
    return [float(np.float32(0.05) * np.float32(((stream.next() >> 40) - 2**23) / 2**23)) for _ in range(4)]


def test_the_module_plays_gymnasiums_episodes(environment):
    """A greedy episode of WebAssembly replayed in Gymnasium: every position and angle, and when it ends.

    Errors grow along an unstable pole, so only the first 100 steps of a long episode are compared.
    """
    compared = 0
    for seed in range(60):
        weights = cartpole.train(cartpole.initial_weights(seed))["weights"]  # stays up for some 40 steps
        output = cartpole.predict(weights, seed)
        environment.reset(seed=seed)
        environment.unwrapped.state = np.array(start_of(seed))
        for step, (x, theta, action) in enumerate(output["steps"][:100], start=1):
            before = environment.unwrapped.state
            assert (x, theta) == pytest.approx((before[0], before[2]), abs=0.5001e-4)
            *_, terminated, truncated, _ = environment.step(action)
            assert (terminated or truncated) == (step == output["return"])
            compared += 1
    assert compared > 2000


def test_the_limit_is_gymnasiums(environment):
    """No episode is longer, and a policy that has learned plays exactly so many steps."""
    weights = cartpole.initial_weights(1)
    for start in range(0, 640, 64):
        weights = cartpole.train(weights, start=start, count=64)["weights"]
    returns = [cartpole.predict(weights, seed)["return"] for seed in range(20)]
    assert max(returns) == environment.spec.max_episode_steps == 500
