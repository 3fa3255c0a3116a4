import io
import json
import os
import sys

import pytest

from tests.cli.fake_api import TOKEN, URL
from weei_cli.outcomes import Failed
from weei_cli.signins import SignIn, canonical_url, check_token

OTHER = "http://localhost:8000"


@pytest.mark.parametrize(
    "text, url",
    [
        ("https://weei.example/", "https://weei.example"),
        (" https://Weei.Example:8443", "https://weei.example:8443"),
        ("http://me:secret@localhost:8000", "http://localhost:8000"),
    ],
)
def test_an_address_is_scheme_host_and_port(text, url):
    assert canonical_url(text) == url


@pytest.mark.parametrize("text", ["", "weei.example", "ftp://weei.example", "https://", "https://a/jobs", "http://a:x"])
def test_what_is_no_address_of_a_server_is_refused(text):
    with pytest.raises(Failed, match="such as https://weei.example") as refused:
        canonical_url(text)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("text", ["", "hunter2", "weei_user_" + "a" * 43, TOKEN + " x"])
def test_what_is_no_access_token_is_never_sent(text):
    with pytest.raises(Failed) as refused:
        check_token(text)
    assert text == "" or text not in refused.value.message


def test_the_file_is_for_its_owner_alone_and_one_for_each_server(config):
    os.umask(0o000)
    path, other = config.save(SignIn(URL, TOKEN)), config.save(SignIn(OTHER, TOKEN))
    assert path != other and config.urls() == [OTHER, URL]
    for file in (path, other):
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(path.parent)) == sorted([path.name, other.name])


def test_which_server_is_meant(config):
    with pytest.raises(Failed, match="not signed in anywhere"):
        config.choose(None, {})
    config.save(SignIn(URL, TOKEN))
    assert config.choose(None, {}).url == URL
    config.save(SignIn(OTHER, TOKEN))
    with pytest.raises(Failed, match=f"--url: {OTHER}, {URL}"):
        config.choose(None, {})
    assert config.choose(None, {"WEEI_URL": OTHER}).url == OTHER
    assert config.choose(URL, {"WEEI_URL": OTHER}).url == URL
    mine = "weei_pat_" + "b" * 43
    assert config.choose(None, {"WEEI_URL": "https://new.example", "WEEI_TOKEN": mine}).token == mine
    with pytest.raises(Failed, match="weei login https://new.example"):
        config.choose("https://new.example", {})


def test_a_file_that_cannot_be_read_is_named(config):
    path = config.save(SignIn(URL, TOKEN))
    path.write_text("{")
    with pytest.raises(Failed, match=str(path)):
        config.choose(None, {})


def login(monkeypatch, token):
    monkeypatch.setattr(sys, "stdin", io.StringIO(token + "\n"))


def test_a_token_that_the_server_takes_is_kept(weei, config, monkeypatch):
    config.forget(URL)
    login(monkeypatch, TOKEN)
    code, out, _ = weei("login", URL + "/", "--token-stdin")
    assert code == 0 and "as alice" in out and TOKEN not in out
    assert config.load(URL) == SignIn(URL, TOKEN)


def test_a_token_that_the_server_refuses_is_not(weei, config, monkeypatch):
    config.forget(URL)
    login(monkeypatch, "weei_pat_" + "b" * 43)
    code, _, err = weei("login", URL, "--token-stdin", "--json")
    assert code == 1 and json.loads(err)["code"] == "signed_out" and config.load(URL) is None


def test_without_a_terminal_nothing_is_asked(weei, monkeypatch):
    login(monkeypatch, TOKEN)
    code, _, err = weei("login", URL)
    assert code == 2 and "--token-stdin" in err


def test_the_prompt_does_not_show_the_token(weei, config, monkeypatch):
    config.forget(URL)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: TOKEN)
    code, out, err = weei("login", URL)
    assert code == 0 and f"{URL}/account/tokens/" in err and TOKEN not in out + err


@pytest.mark.parametrize("revoke", [False, True])
def test_signing_out_forgets_and_may_end_the_token(weei, config, api, revoke):
    code, out, _ = weei("logout", *(["--revoke"] if revoke else []))
    assert code == 0 and config.load(URL) is None
    assert ("POST /api/v1/site/sign-out" in api.asked) == revoke
    assert weei("jobs")[0] == 2


def test_the_environment_stands_above_what_is_stored(weei, api, monkeypatch):
    monkeypatch.setenv("WEEI_TOKEN", "weei_pat_" + "b" * 43)
    code, _, err = weei("jobs")
    assert code == 1 and err == "weei: This access token is unknown.\n"
