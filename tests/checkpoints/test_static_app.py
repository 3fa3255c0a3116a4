"""Static files and presets, as browsers need them."""

from __future__ import annotations

import gzip
import re

import pytest
from django.conf import settings as project

from tests.checkpoints.asgi import call
from weei_site.static_app import application, media_type


def get(path, headers=(), method="GET"):
    return call(application, method, path, headers)


def test_own_files_are_asked_for_again_each_time():
    answer = get("/static/weei/protocol.js")
    assert answer.status == 200
    assert answer.body == (project.BASE_DIR / "static/weei/protocol.js").read_bytes()
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "'wasm-unsafe-eval'" in answer.headers["content-security-policy"]
    assert answer.headers["access-control-allow-origin"] == "*"
    again = get("/static/weei/protocol.js", {"If-None-Match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_text_is_compressed_for_whoever_takes_it_so():
    path = "/static/weei/protocol.js"
    plain, small = get(path), get(path, {"Accept-Encoding": "br, gzip"})
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body
    assert int(small.headers["content-length"]) == len(small.body) < len(plain.body) / 2
    assert plain.headers["vary"] == small.headers["vary"] == "Accept-Encoding"
    assert small.headers["content-type"] == plain.headers["content-type"]
    assert small.headers["content-security-policy"] == plain.headers["content-security-policy"]
    assert small.headers["etag"] != plain.headers["etag"]
    again = get(path, {"Accept-Encoding": "gzip", "If-None-Match": small.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert get(path, {"Accept-Encoding": "gzip", "If-None-Match": plain.headers["etag"]}).status == 200


def test_parts_and_modules_are_never_compressed():
    part = get("/static/weei/protocol.js", {"Accept-Encoding": "gzip", "Range": "bytes=0-3"})
    assert (part.status, "content-encoding" in part.headers, len(part.body)) == (206, False, 4)
    assert "content-encoding" not in get("/presets/digits/digits.wasm", {"Accept-Encoding": "gzip"}).headers


def test_vendored_files_carry_a_version_and_are_kept_for_good():
    names = [path.name for path in (project.BASE_DIR / "static/vendor").glob("*.js")]
    assert names
    for name in names:
        answer = get(f"/static/vendor/{name}")
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert get("/static/vendor/README.md").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/static/admin/css/base.css", "/static/django_htmx/htmx-2.min.js"])
def test_files_of_installed_apps_need_no_collecting(path):
    assert get(path).status == 200


def test_presets_come_from_the_shipped_models():
    answer = get("/presets/digits/digits.wasm")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/wasm")
    assert answer.body[:4] == b"\0asm"
    assert get("/presets/digits/data/manifest.json").headers["content-type"].startswith("application/json")
    assert get("/presets/digits/digits.wasm", {"Range": "bytes=0-3"}).body == b"\0asm"


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/weei",
        "/static/none.js",
        "/static/../manage.py",
        "/static/weei/../../manage.py",
        "/static//etc/passwd",
        "/static/a\0b",
        "/static/" + "x" * 5000,
        "/presets/",
        "/presets/digits",
        "/presets/README.md",
        "/presets/.gitattributes",
        "/presets/digits/../../manage.py",
        "/presets//etc/passwd",
        "/presets/digits/a\0b",
        "/presets/digits/" + "x" * 5000,
        "/other",
    ],
)
def test_nothing_else_is_there(path):
    answer = get(path)
    assert (answer.status, answer.json["code"]) == (404, "not_found")


def test_a_link_does_not_lead_out(settings, tmp_path):
    settings.REFERENCE_MODELS_DIR = tmp_path / "models"
    (tmp_path / "models/m").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "models/m/link").symlink_to(tmp_path / "secret")
    (tmp_path / "models/m/.hidden").write_text("hidden")
    (tmp_path / "models/m/shown").write_text("shown")
    assert get("/presets/m/link").status == 404
    assert get("/presets/m/.hidden").status == 404
    assert get("/presets/m/shown").body == b"shown"


def test_only_reading():
    assert get("/static/weei/protocol.js", method="HEAD").body == b""
    answer = get("/static/weei/protocol.js", method="POST")
    assert (answer.status, answer.json["code"]) == (405, "method_not_allowed")


def test_types_do_not_depend_on_the_machine(monkeypatch):
    monkeypatch.setattr("weei_site.static_app.guess_type", lambda name: (None, None))
    assert media_type("a.js") == media_type("a.MJS") == "text/javascript"
    assert media_type("a.wasm") == "application/wasm"
    assert media_type("a.css") == "text/css"
    assert media_type("a.unknown") == "application/octet-stream"


def test_every_vendored_script_has_its_version_in_its_name():
    for path in (project.BASE_DIR / "static/vendor").glob("*.js"):
        assert re.search(r"-\d+\.\d+", path.name), path.name
