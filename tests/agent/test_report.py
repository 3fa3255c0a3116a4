"""What the agent prints."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from weei_agent.report import SENTENCES, Bars, JsonLines, Live, Plain, clean, sentence

HOSTILE = "\x1b[2J[bold]Click\nhere\u202e"
MOMENT = Live(HOSTILE, 3, 0.5, 3, "one participant", "training", 10, 128, 42.0)


def test_text_from_outside_cannot_steer_a_terminal():
    """C78, for terminals."""
    assert clean(HOSTILE) == " [2J[bold]Click here "
    assert len(clean("x" * 10_000)) == 500


def test_plain_lines_say_what_happened():
    out, err = io.StringIO(), io.StringIO()
    plain = Plain(out, err)
    plain.event("failed", round=3, reason=HOSTILE)
    plain.event("error", code=4, message="Removed.")
    assert out.getvalue() == "Round 3:  [2J[bold]Click here\n"
    assert err.getvalue() == "Removed.\n"


def test_quiet_leaves_the_end():
    out, err = io.StringIO(), io.StringIO()
    plain = Plain(out, err, quiet=True)
    plain.event("round", round=1, status="running", waitingFor="")
    plain.event("stopped", code=0, message="Done.")
    assert out.getvalue() == "Done.\n"


def test_json_is_one_object_per_line():
    out = io.StringIO()
    reporter = JsonLines(out)
    reporter.event("failed", round=3, reason=HOSTILE)
    reporter.live(MOMENT)
    (line,) = out.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("at") > 0
    assert event == {"event": "failed", "round": 3, "reason": HOSTILE}


def test_json_refuses_what_is_no_json():
    """C76."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        JsonLines(io.StringIO()).event("trained", metrics={"loss": float("nan")})


def test_bars_show_text_from_outside_as_text():
    out = io.StringIO()
    bars = Bars(Console(file=out, force_terminal=True, width=200, color_system=None))
    bars.live(MOMENT)
    bars.event("failed", round=3, reason=HOSTILE)
    bars.close()
    assert "[2J[bold]Click here" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()
    assert "42 examples/s" in out.getvalue()


def test_every_event_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()
    for name in SENTENCES:
        assert f"| `{name}` |" in page, name


def test_a_sentence_has_no_loose_ends():
    assert sentence("round", {"round": 1, "status": "running", "waitingFor": ""}) == "Round 1, running:"
