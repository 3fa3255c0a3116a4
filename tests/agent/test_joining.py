"""Links, what a person is shown, and what is asked."""

import io
import json
import sys

import pytest

from tests.agent.fake_server import FakeServer, Refusal
from weei_agent import joining
from weei_agent.cli import main
from weei_agent.link import Link, parse_link
from weei_agent.outcomes import Exit, Stop
from weei_agent.state import Invitation


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("https://weei.example/join/abc", Link("https://weei.example", "abc")),
        ("http://192.168.1.5:8000/join/abc/", Link("http://192.168.1.5:8000", "abc")),
        (" https://WEEI.example/join#abc ", Link("https://weei.example", "abc")),
        ("https://user@weei.example/i/abc?x=1", Link("https://weei.example", "abc")),
    ],
)
def test_a_link_names_a_server_and_a_token(text, link):
    assert parse_link(text) == link


@pytest.mark.parametrize(
    "text", ["", "weei.example/join/abc", "ftp://weei.example/abc", "https://", "https://weei.example/"]
)
def test_what_is_no_link_is_refused(text):
    with pytest.raises(Stop, match="must be an invitation link"):
        parse_link(text)


def invitation(**changes):
    server = FakeServer()
    return Invitation.model_validate(server.invitation() | changes)


def test_a_person_sees_what_runs_what_comes_and_what_leaves():
    text = "\n".join(joining.describe(invitation()))
    for part in ("Toy model", "SHA-256", "batchSize 16", "chunks of at most", "Uploads", "Nothing else"):
        assert part in text


def test_what_this_machine_lacks_is_known_before_accepting():
    needs = {"requiredFeatures": ["wasm-simd128", "teleport"], "estimatedWorkingBytes": 5 * 2**30}
    assert joining.missing_here(invitation(requirements=needs), 2048) == [
        "the feature teleport",
        "5.0 GiB of memory (--memory-mib is 2048)",
    ]
    assert joining.missing_here(invitation(), 2048) == []


def test_a_machine_that_lacks_something_does_not_accept(server, run, monkeypatch):
    monkeypatch.setattr(joining, "SUPPORTED_FEATURES", frozenset())
    original = server.invitation
    server.invitation = lambda: original() | {"requirements": {"requiredFeatures": ["wasm-simd128"]}}
    assert run()[0].code == Exit.MODEL_UNUSABLE
    assert server.member is None


def test_an_invitation_that_is_not_valid_ends_it(server, run):
    stop, *_ = run(link=f"{server.origin}/join/wrong")
    assert (stop.code, stop.message) == (Exit.REFUSED, "This invitation is not valid.")


def test_without_a_terminal_nobody_is_asked_and_nothing_accepted(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main([server.link, "--state-dir", str(tmp_path)]) == Exit.USAGE
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 7
    assert "add --yes" in shown.err
    assert "\x1b" not in shown.out
    assert server.member is None
    assert server.log == ["invitations/open"]


class Terminal:
    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "accepted"), [("n", False), ("", False), ("y", True), ("YES", True)])
def test_a_person_at_a_terminal_decides(server, tmp_path, monkeypatch, answer, accepted):
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: answer)
    server.refuse["invitations/decide"] = Refusal(404, "not_found", "Enough for this test.")
    code = main([server.link, "--state-dir", str(tmp_path), "--quiet"])
    assert code == Exit.REFUSED
    assert (server.refused == ["invitations/decide"]) is accepted


def test_json_needs_a_yes_beforehand(server, tmp_path, capsys):
    assert main([server.link, "--state-dir", str(tmp_path), "--json"]) == Exit.USAGE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["invitation", "error"]
    assert lines[-1]["code"] == 2


@pytest.mark.parametrize(
    "arguments", [["--workers", "0"], ["--max-minutes", "nan"], ["--max-rounds", "2.5"], ["--rest", "-1"], ["--what"]]
)
def test_arguments_that_do_not_fit_are_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["https://weei.example/join/abc", *arguments])
    assert ended.value.code == Exit.USAGE


def test_a_state_folder_that_cannot_be_used_is_named(server, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main([server.link, "--yes", "--state-dir", str(tmp_path / "file")]) == Exit.USAGE
    assert f"The state folder {tmp_path / 'file'} cannot be used" in capsys.readouterr().err
