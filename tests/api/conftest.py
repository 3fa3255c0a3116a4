from tests.peers.services import sent  # noqa: F401 - a fixture of every test here
