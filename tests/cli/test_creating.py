import hashlib
import json
import zipfile

import httpx
import pytest

from tests.cli.fake_api import problem
from weei_client import tus

CHUNKS = {"one.bin": b"first chunk", "two.bin": b"second"}
SETTINGS = {"epochs": 2, "localEpochs": 1, "batchSize": 4}


def manifest(chunks=CHUNKS):
    return json.dumps(
        [
            {
                **{"id": name.removesuffix(".bin"), "fileName": name, "bytes": len(data), "format": "raw"},
                **{"sha256": hashlib.sha256(data).hexdigest(), "exampleCount": 4},
            }
            for name, data in chunks.items()
        ]
    )


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "model"
    (root / "data").mkdir(parents=True)
    (root / "toy.wasm").write_bytes(b"\0asm1234")
    (root / "manifest.json").write_text(manifest())
    for name, data in CHUNKS.items():
        (root / "data" / name).write_bytes(data)
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    return root


def create(weei, *arguments):
    return weei("create", *arguments, "--settings", "settings.json", "--json")


def test_a_folder_becomes_a_job(weei, api, folder):
    code, out, err = create(weei, "model", "--set", "epochs=3", "--set", "aggregation.method=fedadam", "--name", "Mine")
    assert code == 0, err
    made = json.loads(out)
    assert made["name"] == "Made" and made["sentBytes"] == sum(len(d) for d in CHUNKS.values()) + 8 + len(manifest())
    asked = api.request
    assert asked["name"] == "Mine" and asked["module"]["fileName"] == "toy.wasm"
    assert [file["fileName"] for file in asked["files"]] == list(CHUNKS) and "validation" not in asked
    settings = {**SETTINGS, "epochs": 3, "aggregation": {"method": "fedadam"}, "coordinatorParticipates": False}
    assert asked["settings"] == settings


def test_only_what_the_server_lacks_is_sent(weei, api, folder):
    api.held = {hashlib.sha256(CHUNKS["one.bin"]).hexdigest()}
    assert create(weei, "model")[0] == 0
    assert sorted(api.sent) == ["manifest.json", "toy.wasm", "two.bin"]
    api.sent.clear()
    assert json.loads(create(weei, "model")[1])["sentBytes"] == 0 and api.sent == []


def test_a_cut_connection_goes_on_where_the_server_is(weei, api, folder, monkeypatch):
    monkeypatch.setattr(tus, "SLICE_BYTES", 4)
    api.held = {hashlib.sha256(data).hexdigest() for data in [*CHUNKS.values(), manifest().encode()]}
    api.cut_after = 1
    assert create(weei, "model")[0] == 0
    uploads = [line.split()[0] for line in api.asked if "/bytes/uploads" in line]
    assert uploads == ["POST", "PATCH", "HEAD", "PATCH"] and api.sent == ["toy.wasm"]


def test_the_files_may_be_named_one_by_one(weei, api, folder):
    (folder / "held.bin").write_bytes(b"held out")
    arguments = ["--module", "model/toy.wasm", "--manifest", "model/manifest.json", "--validation", "model/held.bin"]
    code, _, err = create(weei, *arguments, "--files", "model/data/two.bin", "model/data/one.bin")
    assert code == 0, err
    assert api.request["validation"]["fileName"] == "held.bin"
    assert [file["fileName"] for file in api.request["files"]] == list(CHUNKS)


def test_a_zip_is_a_folder_too(weei, api, folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder))
    assert create(weei, "model.zip")[0] == 0 and len(api.request["files"]) == 2


@pytest.mark.parametrize(
    "change, code, says",
    [
        (lambda root: (root / "data/two.bin").unlink(), 2, "names files that were not found: two.bin"),
        (lambda root: (root / "toy.wasm").unlink(), 2, "must hold one *.wasm; found none"),
        (lambda root: (root / "more.wasm").write_bytes(b"x"), 2, "found more.wasm, toy.wasm"),
        (lambda root: (root / "one.bin").write_bytes(b"x"), 2, "There are several files one.bin"),
        (lambda root: (root / "data/two.bin").write_bytes(b"sekond"), 1, "The files must match the manifest"),
        (lambda root: (root / "manifest.json").write_text("{"), 1, "JSON"),
    ],
)
def test_what_cannot_become_a_job_is_refused_before_a_byte_is_sent(weei, api, folder, change, code, says):
    change(folder)
    found = create(weei, "model")
    assert found[0] == code and says in json.loads(found[2])["title"]
    assert not api.sent and not any("/bytes/" in line for line in api.asked)


def test_a_file_that_the_manifest_does_not_know_is_refused(weei, api, folder):
    (folder / "other.bin").write_bytes(b"x")
    code, _, err = create(weei, "model", "--files", "model/data", "model/other.bin")
    assert code == 1 and "is not in the manifest" in json.loads(err)["title"]


def test_a_draft_that_fails_tells_its_reason_and_its_field(weei, api, folder):
    api.draft = api._draft("failed") | {"error": "Chunk two is odd.", "code": "unreadable_data", "field": "files"}
    code, _, err = create(weei, "model")
    assert code == 1
    assert json.loads(err) == {"title": "Chunk two is odd.", "code": "unreadable_data", "field": "files"}


@pytest.mark.parametrize("pair", ["epochs", "=3", "a..b=1", "epochs.x=1"])
def test_a_setting_that_is_none_is_refused(weei, api, folder, pair):
    code, _, err = create(weei, "model", "--set", pair)
    assert code == 2 and "--set" in json.loads(err)["title"]


def test_with_start_it_waits_until_somebody_takes_part(weei, api, folder):
    nobody = problem(409, "nobody_trains", "Nobody can train yet.")
    job = api.add("Waits")
    api.draft = api._draft("done", jobId=job["id"])
    api.answers[f"POST /api/v1/jobs/{job['id']}/start"] = [nobody, nobody]
    code, out, err = weei("create", "model", "--settings", "settings.json", "--start", "--invite")
    assert code == 0 and "https://weei.example/join/secret/\n" in out
    assert err.count("Nobody takes part yet") == 1 and "“Waits” runs." in out
    assert api.asked.count(f"POST /api/v1/jobs/{job['id']}/start") == 3


def test_a_refused_upload_is_the_servers_sentence(weei, api, folder):
    api.answers["POST /bytes/uploads"] = problem(507, "storage_full", "The disk is full.")
    assert json.loads(create(weei, "model")[2])["code"] == "storage_full"


def test_an_upload_that_is_told_to_wait_waits(weei, api, folder):
    api.answers["POST /bytes/uploads"] = [httpx.Response(503, headers={"Retry-After": "0"})]
    assert create(weei, "model")[0] == 0 and len(api.sent) == 4
