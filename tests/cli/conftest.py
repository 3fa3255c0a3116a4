import re
import sys
from functools import partial

import httpx
import pytest

import weei_cli.main
from tests.cli.fake_api import TOKEN, URL, FakeApi
from weei_cli.signins import SignIn, SignIns
from weei_client.server import Server


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("WEEI_URL", raising=False)
    monkeypatch.delenv("WEEI_TOKEN", raising=False)
    return SignIns()


@pytest.fixture
def api(config, monkeypatch):
    """A server without a network. The person is signed in to it."""
    api = FakeApi()
    config.save(SignIn(URL, TOKEN))
    monkeypatch.setattr(weei_cli.main, "Server", partial(Server, transport=httpx.MockTransport(api)))
    monkeypatch.setattr(weei_cli.main, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(weei_cli.main, "LAST_RETRY_SECONDS", 0.02)
    for module, name in (("creating", "DRAFT_SECONDS"), ("running", "START_SECONDS"), ("watching", "LOG_SECONDS")):
        monkeypatch.setattr(sys.modules[f"weei_cli.{module}"], name, 0.01)
    monkeypatch.setattr(sys.modules["weei_cli.running"], "VALIDATION_SECONDS", 0.01)
    return api


@pytest.fixture
def weei(api, capsys, tmp_path, monkeypatch):
    """Runs one command: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = weei_cli.main.main(arguments)
        out, err = capsys.readouterr()
        assert not re.search(r"Traceback", err)
        return code, out, err

    return run
