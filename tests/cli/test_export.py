import hashlib
import io
import json
import struct
import sys

import numpy as np
import pytest

from tests.cli.fake_api import WEIGHTS
from weei_cli.export import FORMATS

SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def npy(major=1):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.frombuffer(WEIGHTS, "<f4"), version=(major, 0))
    return out.getvalue()


def files(job):
    of_round = f"/bytes/jobs/{job['id']}/checkpoints/0"
    metadata = json.dumps({"checkpoint": {"bytes": len(WEIGHTS)}}).encode()
    tensors = json.dumps({"weights": {"dtype": "F32", "shape": [64], "data_offsets": [0, len(WEIGHTS)]}}).encode()
    return {
        of_round: struct.pack("<I", len(metadata)) + metadata + WEIGHTS + b"state of FedAdam",
        f"{of_round}/weights.safetensors": struct.pack("<Q", len(tensors)) + tensors + WEIGHTS,
        f"{of_round}/weights.npy": npy(),
        f"/bytes/jobs/{job['id']}/{SHA256}": WEIGHTS,
        f"/bytes/jobs/{job['id']}/{job['module']['sha256']}": b"\0asm1234",
        "/checkpoints/0/ledger": b'{"round": 0}',
        "/manifest": b"[]",
        "/metrics.csv": b"round,loss\n",
        "/tensorboard": b"PK",
    }


@pytest.fixture
def job(api):
    job = api.add("Digits / ../ten")
    api.files = files(job)
    return job


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_arrives_whole_under_a_name_of_its_own(weei, api, job, tmp_path, format):
    code, out, err = weei("export", job["id"], "--format", format, "--json")
    assert code == 0, err
    said = json.loads(out)
    content = (tmp_path / said["file"]).read_bytes()
    assert content in api.files.values() and said["bytes"] == len(content)
    assert said["sha256"] == hashlib.sha256(content).hexdigest() and "/" not in said["file"]
    verified = {"module": job["module"]["sha256"], "ledger": None, "manifest": None, "csv": None, "tensorboard": None}
    assert said.get("verified") == verified.get(format, SHA256)


@pytest.mark.parametrize("format", ["checkpoint", "safetensors", "npy", "weights", "module"])
def test_wrong_bytes_are_refused_and_nothing_is_kept(weei, api, job, tmp_path, format):
    def damaged(content):
        at = content.find(WEIGHTS) if WEIGHTS in content else 0
        return content[:at] + b"\1" + content[at + 1 :]

    api.files = {path: damaged(content) for path, content in api.files.items()}
    code, _, err = weei("export", job["id"], "--format", format, "--json", "-o", "out")
    assert code == 1 and json.loads(err)["code"] in ("wrong_hash", "wrong_format")
    assert not list(tmp_path.glob("*out*"))


def test_what_is_no_such_file_is_refused(weei, api, job):
    api.files = dict.fromkeys(api.files, b"<html>")
    for format in ("checkpoint", "safetensors", "npy"):
        assert "is not such a file" in weei("export", job["id"], "--format", format, "-o", "out")[2]


def test_numpys_second_version_is_known_too(weei, api, job):
    api.files[f"/bytes/jobs/{job['id']}/checkpoints/0/weights.npy"] = npy(2)
    assert weei("export", job["id"], "--format", "npy")[0] == 0


def test_a_cut_download_goes_on_where_it_was(weei, api, job, tmp_path):
    api.cut_after = 100
    assert weei("export", job["id"], "--format", "weights", "-o", "w")[0] == 0
    assert (tmp_path / "w").read_bytes() == WEIGHTS
    assert sum("/bytes/" in line for line in api.asked) == 2


def test_to_standard_output_go_the_verified_bytes_alone(weei, api, job, monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
    assert weei("export", job["id"], "--format", "weights", "-o", "-")[0] == 0
    assert out.getvalue() == WEIGHTS


def test_a_file_that_is_there_is_kept_unless_forced(weei, api, job, tmp_path):
    (tmp_path / "w").write_text("mine")
    assert weei("export", job["id"], "-o", "w")[0] == 2 and (tmp_path / "w").read_text() == "mine"
    assert weei("export", job["id"], "-o", "w", "--force")[0] == 0 and (tmp_path / "w").read_bytes() != b"mine"


def test_what_does_not_go_together_is_refused(weei, api, job):
    assert weei("export", job["id"], "--format", "module", "--round", "1")[0] == 2
    assert weei("export", job["id"], "-o", "-", "--json")[0] == 2


def test_a_round_that_is_not_there_is_the_servers_sentence(weei, api, job):
    assert weei("export", job["id"], "--round", "9")[::2] == (1, "weei: No such checkpoint.\n")


def test_an_export_that_the_server_does_not_know_is_a_sentence(weei, api, job, tmp_path):
    api.files = {}
    assert weei("export", job["id"], "-o", "out")[::2] == (1, "weei: There is nothing at this address.\n")
    assert not list(tmp_path.glob("*out*"))
