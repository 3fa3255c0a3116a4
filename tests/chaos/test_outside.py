"""What is seen from outside is told: an answer that is no refusal, a 5xx, a process that ended, memory, logs, files."""

import os

from tests.chaos import outside


def test_only_503_and_507_may_be_answered_beside_what_is_no_fault_of_the_server():
    assert outside.bad_statuses({"503": 7, "507": 1}) == []
    assert outside.bad_statuses({"500": 2, "503": 1}) == ["2 answers were 500"]


def test_a_process_that_ended_without_being_hit_is_told():
    before = {"web-a": 1, "fast": 2}
    assert outside.deaths(before, {"web-a": 9, "fast": 2}, {"web-a"}) == []
    assert outside.deaths(before, {"web-a": 9, "fast": 2}, set()) == ["web-a ended by itself: 1 became 9"]


def test_a_process_above_the_cap_is_told(monkeypatch):
    pids = {"me": os.getpid()}
    monkeypatch.setattr(outside, "RSS_CAP_BYTES", 2 * outside.resident_bytes(os.getpid()))
    assert outside.too_large(pids) == []
    monkeypatch.setattr(outside, "RSS_CAP_BYTES", 1)
    assert outside.too_large(pids)[0].startswith("me holds")


def test_unhandled_errors_are_counted_once_and_handled_ones_never(tmp_path):
    path = tmp_path / "web.log"
    logs = outside.Logs([("web", path)])
    path.write_text("the sweep failed\nTraceback (most recent call last)\nERROR: Exception in ASGI application\n")
    assert logs.unhandled() == {"web": 1} and logs.unhandled() == {}
    path.write_text("Task exception was never retrieved\n")
    assert logs.unhandled() == {"web": 1}, "a rotated log begins anew"


def test_old_temporary_files_and_slices_are_left_over_and_young_ones_are_not(tmp_path):
    for name in ("temporary/a", "uploads/1/0", "sha256/ab/ab12"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        os.utime(path, (1000, 1000))
    assert sorted(outside.leftovers(tmp_path, older=60, now=2000)) == ["temporary/a", "uploads/1/0"]
    assert outside.leftovers(tmp_path, older=60, now=1030) == []
