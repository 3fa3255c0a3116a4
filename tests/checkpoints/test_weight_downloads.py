"""A checkpoint's weights as files of other programs: equal to the checkpoint bit for bit."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from django.contrib.auth.models import User
from safetensors.numpy import load

from checkpoints.bytes.app import BytesApp
from jobs.models import Job
from tests.checkpoints.asgi import call

pytestmark = pytest.mark.db


def path(world, kind="safetensors", number=0):
    return f"/bytes/jobs/{world.job.pk}/checkpoints/{number}/weights.{kind}"


def get(world, address, method="GET", **headers):
    return call(BytesApp(), method, address, world.session() | headers)


def test_safetensors_has_the_weights_as_one_tensor_when_none_is_named(world):
    answer = get(world, path(world))
    read = load(answer.body)
    assert list(read) == ["weights"] and read["weights"].tobytes() == world.weights
    assert "round-0.safetensors" in answer.headers["content-disposition"]


def test_safetensors_has_the_tensors_that_the_model_names(world):
    count = len(world.weights) // 4
    info = json.loads(world.job.model_info_text)
    info["tensors"] = [{"name": "layer.weight", "shape": [1, count - 2]}, {"name": "layer.bias", "shape": [2]}]
    Job.objects.filter(pk=world.job.pk).update(model_info_text=json.dumps(info))
    read = load(get(world, path(world)).body)
    assert read["layer.weight"].shape == (1, count - 2)
    assert read["layer.weight"].tobytes() + read["layer.bias"].tobytes() == world.weights


def test_the_file_says_where_it_comes_from(world):
    body = get(world, path(world)).body
    said = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]
    assert said["job"] == str(world.job.pk) and said["round"] == "0"
    assert said["weights_sha256"] == world.job.checkpoints.get().weights_id
    assert said["module_sha256"] == world.job.module_id


def test_numpy_has_the_weights_as_a_flat_array(world):
    read = np.load(io.BytesIO(get(world, path(world, "npy")).body), allow_pickle=False)
    assert read.dtype == np.float32 and read.tobytes() == world.weights


@pytest.mark.parametrize("kind", ["safetensors", "npy"])
def test_a_range_goes_on_where_a_download_broke_off(world, kind):
    whole = get(world, path(world, kind))
    rest = get(world, path(world, kind), Range="bytes=100-", **{"If-Range": whole.headers["etag"]})
    assert (rest.status, rest.body) == (206, whole.body[100:])
    head = get(world, path(world, kind), "HEAD")
    assert int(head.headers["content-length"]) == len(whole.body) and head.body == b""


def test_what_is_not_there_is_404_for_everybody(world):
    stranger = world.session(User.objects.create_user("stranger"))
    assert get(world, path(world, number=1)).status == 404
    assert get(world, path(world, "pickle")).status == 404
    assert call(BytesApp(), "GET", path(world), stranger).status == 404
    assert call(BytesApp(), "GET", path(world), {}).status == 401


def test_damaged_weights_are_not_sent(world):
    stored = world.job.checkpoints.get().weights
    stored.body = b"\0" * 4 + bytes(stored.body)[4:]
    stored.save(update_fields=["body"])
    answer = get(world, path(world))
    assert answer.status == 409 and json.loads(answer.body)["code"] == "corrupt_artifact"
