"""The stored identity."""

import stat

import pytest

from weei_agent.identity import Identity, IdentityStore
from weei_agent.outcomes import Exit, Stop


@pytest.fixture
def store(tmp_path):
    return IdentityStore(tmp_path, "https://weei.example:8443", "default")


def test_an_identity_is_kept_for_its_owner_alone(store):
    with store.lock():
        identity = Identity("peer", "secret")
        identity.remember("link token", "job")
        store.save(identity)
        assert store.load() == identity
    file = store.folder / "peer.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "link token" not in file.read_text()
    assert identity.job_of("link token") == "job"
    assert identity.job_of("another") is None


def test_two_agents_with_one_identity_are_refused(store, tmp_path):
    other = IdentityStore(tmp_path, "https://weei.example:8443", "default")
    running = "Another weei-agent named 'default' is running"
    with store.lock(), pytest.raises(Stop, match=running) as refused, other.lock():
        pass
    assert refused.value.code == Exit.USAGE


def test_servers_and_names_do_not_share_an_identity(tmp_path):
    folders = {
        IdentityStore(tmp_path, origin, name).folder
        for origin in ("http://a", "https://a", "http://a:81", "http://a-81")
        for name in ("one", "two")
    }
    assert len(folders) == 8


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 65])
def test_a_name_cannot_leave_the_folder(tmp_path, name):
    with pytest.raises(Stop, match="--name"):
        IdentityStore(tmp_path, "http://a", name)


def test_a_broken_file_says_what_to_do(store):
    with store.lock():
        (store.folder / "peer.json").write_text("{")
        with pytest.raises(Stop, match="--new-peer"):
            store.load()


def test_files_of_an_earlier_run_are_removed(store):
    with store.lock():
        pass
    store.scratch.mkdir()
    (store.scratch / "left").write_text("behind")
    with store.lock():
        assert list(store.scratch.iterdir()) == []
