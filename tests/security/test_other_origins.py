"""Origins × credentials × calls, through the application as uvicorn serves it. C82; requirement 4 of issue 4."""

import json

import pytest
from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.utils import timezone

from peers.models import SiteOrigin, SiteUser, UserToken
from peers.services.tokens import bearer_of
from peers.services.user_tokens import user_token_create
from tests.api.world import World
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import metadata
from tests.jobs.world import owner
from weei_site.other_origins import ALLOWED_HEADERS, EXPOSED_HEADERS
from weei_site.routing import build

OWN, OPEN, CHOSEN, OFF, OTHER = (
    "http://testserver",
    "https://open.example",
    "https://chosen.example:8443",
    "https://off.example",
    "https://other.example",
)
SHA256 = "a" * 64


class Pages:
    """Pages of alice's browser on five origins: her session, her device, and her tokens."""

    def __init__(self):
        self.app = build(get_asgi_application())
        self.world = World()
        self.device = self.world.owner
        alice = owner("alice")
        sites = {
            origin: SiteOrigin.objects.create(origin=origin, name="A site", audience=audience, enabled=origin != OFF)
            for origin, audience in ((OPEN, "everybody"), (CHOSEN, "chosen"), (OFF, "everybody"))
        }
        SiteUser.objects.create(site=sites[CHOSEN], user=alice)
        self.tokens = {
            origin: user_token_create(alice, site, "state", timezone.now())[1] for origin, site in sites.items()
        }

    def headers(self, credentials, origin):
        """What the page sends. "user" is the token that its origin was given, or the open site's where it has none."""
        found = {"Host": "testserver"}
        if origin is not None:
            found["Origin"] = origin
        bearer = {"Authorization": f"Bearer {self.device.token}"}
        for one in credentials:
            if one == "cookie":
                found["Cookie"] = f"{django_settings.SESSION_COOKIE_NAME}={self.cookie}"
            elif one == "peer":
                found.update({"Weei-Peer": self.device.token} if "Authorization" in found else bearer)
            else:
                token = self.tokens[CHOSEN if one == "stolen" and origin != CHOSEN else OPEN]
                found["Authorization"] = f"Bearer {token if one == 'stolen' else self.tokens.get(origin, token)}"
        return found

    @property
    def cookie(self):
        return self.device.client.cookies[django_settings.SESSION_COOKIE_NAME].value

    def call(self, name, headers):
        job = self.world.job
        method, path, extra, body = {
            "peer": ("GET", "/api/v1/peer/state", {}, None),
            "jobs": ("GET", "/api/v1/jobs", {}, None),
            "open": ("POST", f"/api/v1/jobs/{job.pk}/open", {"Content-Type": "application/json"}, b"{}"),
            "bytes": ("GET", f"/bytes/jobs/{job.pk}/{job.module_id}", {}, None),
            "upload": ("POST", "/bytes/uploads", UPLOAD, None),
            "site": ("GET", "/api/v1/site", {}, None),
        }[name]
        return call(self.app, method, path, {**extra, **headers}, () if body is None else [body])


UPLOAD = {
    "Tus-Resumable": "1.0.0",
    "Upload-Length": "10",
    "Upload-Metadata": metadata(kind="file", filename="a.bin", sha256=SHA256),
}
CALLS = ("peer", "jobs", "open", "bytes", "upload", "site")
CREDENTIALS = {
    "nothing": (),
    "cookie": ("cookie",),
    "peer": ("peer",),
    "user": ("user",),
    "user and peer": ("user", "peer"),
    "stolen": ("stolen",),
    "stolen and peer": ("stolen", "peer"),
    "cookie and stolen": ("cookie", "stolen"),
}
GUEST = {"peer": 401, "jobs": 401, "open": 401, "bytes": 401, "upload": 401, "site": 200}
ALL = {"peer": 200, "jobs": 200, "open": 200, "bytes": 200, "upload": 201, "site": 200}
PEER = {**GUEST, "peer": 200, "bytes": 200}
# A session's cookie does not open, because opening needs the device too; nor upload, because it needs an Origin.
SESSION = {**ALL, "peer": 401, "open": 403, "upload": 403}
USER = {**ALL, "peer": 401, "open": 401}
STOLEN = {"peer": 401, "jobs": 403, "open": 403, "bytes": 403, "upload": 403, "site": 200}
STOLEN_WITH_PEER = {**STOLEN, "peer": 200, "bytes": 200}
NOT_CHOSEN = {**dict.fromkeys(CALLS, 403), "site": 200}
NOBODY = dict.fromkeys(CALLS, 403)

OWN_ROW = {
    "nothing": GUEST,
    "cookie": SESSION,
    "peer": PEER,
    "user": STOLEN,
    "user and peer": STOLEN_WITH_PEER,
    "stolen": STOLEN,
    "stolen and peer": STOLEN_WITH_PEER,
    "cookie and stolen": STOLEN,
}
MATRIX: dict[str | None, dict] = {
    None: OWN_ROW,
    OWN: {**OWN_ROW, "cookie": {**SESSION, "upload": 201}},
    OPEN: {
        **OWN_ROW,
        "cookie": GUEST,
        "user": USER,
        "user and peer": ALL,
    },
    CHOSEN: {**dict.fromkeys(CREDENTIALS, NOT_CHOSEN), "user": USER, "user and peer": ALL},
    **{
        origin: dict.fromkeys(("cookie", "user and peer"), NOBODY)
        for origin in (OFF, OTHER, "null", "", f"{OPEN}, {OPEN}")
    },
}


@pytest.fixture
def pages(transactional_db):
    return Pages()


def described(answer):
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("origin", MATRIX, ids=str)
def test_what_each_origin_may_with_what_it_has(pages, origin):
    for credentials, expected in MATRIX[origin].items():
        found = {}
        for name in CALLS:
            answer = pages.call(name, pages.headers(CREDENTIALS[credentials], origin))
            found[name] = answer.status
            where = (origin, credentials, name)
            assert "Origin" in answer.headers["vary"].split(", "), where
            reads = {"access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED_HEADERS}
            assert described(answer) == (reads if origin in (OPEN, CHOSEN) else {}), where
            if answer.status >= 400:
                problem = answer.json
                assert problem["title"].endswith(".") and problem["status"] == answer.status, where
        assert found == expected, (origin, credentials)


def test_refusals_say_why(pages):
    def code(name, credentials, origin):
        return pages.call(name, pages.headers(credentials, origin)).json["code"]

    assert code("jobs", ("cookie",), OTHER) == "origin_not_registered"
    assert code("bytes", ("peer",), OTHER) == "origin_not_registered"
    assert code("jobs", ("stolen",), OPEN) == code("bytes", ("stolen",), OPEN) == "other_origin"
    assert code("upload", ("stolen",), OWN) == "other_origin"
    assert code("peer", ("peer",), CHOSEN) == code("bytes", ("cookie",), CHOSEN) == "sign_in_needed"
    UserToken.objects.update(revoked_at=timezone.now())
    assert code("jobs", ("user",), OPEN) == code("bytes", ("user",), OPEN) == "signed_out"
    assert code("peer", ("user", "peer"), CHOSEN) == "signed_out"
    SiteUser.objects.update(training=False)
    UserToken.objects.update(revoked_at=None)
    assert code("peer", ("user", "peer"), CHOSEN) == code("jobs", ("user",), CHOSEN) == "widget_not_enabled"


def test_a_site_hears_what_its_page_may_and_for_whom(pages):
    def told(credentials, origin):
        return pages.call("site", pages.headers(credentials, origin)).json

    fine = {"training": True, "reason": None}
    assert told((), OWN) == {"origin": None, "user": None, **fine}
    assert told(("cookie",), OWN) == {"origin": None, "user": "alice", **fine}
    assert told((), OPEN) == told(("cookie",), OPEN) == told(("peer",), OPEN) == {"origin": OPEN, "user": None, **fine}
    assert told(("user",), OPEN) == {"origin": OPEN, "user": "alice", **fine}
    assert told(("user", "peer"), CHOSEN) == {"origin": CHOSEN, "user": "alice", **fine}
    assert told((), CHOSEN)["reason"] == f"Distributed training is for chosen users on {CHOSEN}. Sign in first."
    assert "given to another origin" in told(("stolen",), OPEN)["reason"]
    assert not told((), CHOSEN)["training"] and not told(("stolen",), OPEN)["training"]
    UserToken.objects.update(revoked_at=timezone.now())
    assert told(("user",), OPEN) == {"origin": OPEN, "user": None, **fine}
    assert told(("user",), CHOSEN)["reason"]
    SiteUser.objects.update(training=False)
    UserToken.objects.update(revoked_at=None)
    assert "not enabled for alice on https://chosen.example:8443" in told(("user",), CHOSEN)["reason"]


def test_signing_out_ends_the_token_and_no_other(pages):
    assert call(pages.app, "POST", "/api/v1/site/sign-out", pages.headers(("user", "peer"), OPEN)).status == 204
    assert pages.call("jobs", pages.headers(("user",), OPEN)).status == 401
    assert pages.call("jobs", pages.headers(("user",), CHOSEN)).status == 200


# --- preflights ---


def preflight(app, path, method, origin=OPEN, headers="authorization,weei-peer", **extra):
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
    return call(app, "OPTIONS", path, {"Origin": origin, **asked, **extra})


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs", "/api/v1/peer/state", "/bytes/uploads", "/bytes/jobs/x/y", "/api/v1/nothing"]
)
def test_preflights_are_answered_before_anything_is_looked_at(pages, path):
    for origin in (OPEN, CHOSEN):
        answer = preflight(pages.app, path, "PATCH", origin)
        assert answer.status == 204 and answer.body == b""
        assert answer.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in answer.headers
        assert "PATCH" in answer.headers["access-control-allow-methods"]
        assert 0 < int(answer.headers["access-control-max-age"]) <= 600
    for origin in (OFF, OTHER, "null"):
        answer = preflight(pages.app, path, "PATCH", origin)
        assert answer.status == 403 and described(answer) == {}


def test_everything_that_our_scripts_send_and_read_is_allowed(pages):
    sent = {"Authorization", "Weei-Peer", "Content-Type", "Accept", "Range"}
    sent |= {"Tus-Resumable", "Upload-Length", "Upload-Metadata", "Upload-Offset"}
    read = {"Upload-Offset", "Upload-Length", "Location", "Weei-Duplicate", "ETag", "Retry-After", "Content-Range"}
    assert sent <= set(ALLOWED_HEADERS.split(", ")) and read <= set(EXPOSED_HEADERS.split(", "))
    assert "X-CSRFToken" not in ALLOWED_HEADERS and "Cookie" not in ALLOWED_HEADERS


def test_tus_asks_options_of_its_own(pages):
    answer = call(pages.app, "OPTIONS", "/bytes/uploads", {"Origin": OPEN})
    assert answer.status == 204 and answer.headers["tus-version"] == "1.0.0"
    assert answer.headers["access-control-allow-origin"] == OPEN


# --- the rest stays as it was ---


def test_pages_never_answer_another_origin(pages):
    for path in ("/", "/jobs/", "/sign-in/", "/train/", f"/jobs/{pages.world.job.pk}/"):
        for origin in (OPEN, OTHER):
            answer = call(pages.app, "GET", path, pages.headers(("cookie",), origin))
            assert described(answer) == {}, (path, origin)
    form = {"Content-Type": "application/x-www-form-urlencoded", **pages.headers(("cookie",), OPEN)}
    assert call(pages.app, "POST", "/sign-out/", form, [b"x=1"]).status == 403


def test_the_body_gate_refuses_a_registered_page_too_and_is_read(pages):
    headers = {**pages.headers(("user",), OPEN), "Content-Type": "application/json", "Content-Length": str(2**30)}
    answer = call(pages.app, "POST", "/api/v1/jobs", headers, [b"x"])
    assert answer.status == 413 and answer.headers["access-control-allow-origin"] == OPEN
    answer = call(pages.app, "POST", "/api/v1/jobs", {**headers, "Origin": OTHER}, [b"x"])
    assert answer.status == 403 and answer.read == 0


def test_static_files_are_open_to_all_and_never_with_credentials(pages):
    for origin in (OPEN, OTHER, "null"):
        answer = call(pages.app, "GET", "/static/weei/weei.js", {"Origin": origin})
        assert answer.status == 200
        assert described(answer) == {"access-control-allow-origin": "*"}
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"


def test_a_refusal_is_a_line_in_the_log_without_the_token(pages, caplog):
    caplog.set_level("DEBUG")
    headers = pages.headers(("stolen",), OTHER)
    pages.call("jobs", headers)
    pages.call("bytes", pages.headers((), CHOSEN))
    lines = [record.getMessage() for record in caplog.records if record.name == "weei.denied"]
    assert lines == [
        f"user=- peer=- GET /api 403 origin_not_registered origin={OTHER!r}",
        f"user=- peer=- GET /bytes 403 sign_in_needed origin={CHOSEN!r}",
    ]
    token = bearer_of(headers["Authorization"])
    assert token and token not in caplog.text


def test_the_site_question_tells_no_secret(pages):
    answer = pages.call("site", pages.headers(("user",), OPEN))
    assert not any(token in json.dumps(answer.json) for token in pages.tokens.values())
    assert answer.headers["access-control-allow-origin"] == OPEN
