"""Which pages may open a socket (C82, H2), through the application as uvicorn serves it, and for whom they speak."""

import asyncio

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone

from peers import consumers, watching
from peers.domain.origins import origin_of
from peers.models import SiteOrigin, SiteUser, UserToken
from peers.services.tokens import peer_create
from peers.services.user_tokens import user_token_create
from tests.jobs.world import make_job, owner
from tests.peers.socket import Socket, in_loop
from weei_site.routing import build

OWN = "http://testserver"
SITE = "https://school.example"


async def no_django(scope, receive, send):
    raise AssertionError("a websocket reached Django")


async def handshake(*headers, path="/ws/peer"):
    async with Socket(build(no_django), path=path, headers=headers) as socket:
        return socket.accepted


@pytest.mark.parametrize("origin", [OWN, "http://localhost:8000"])
def test_own_pages_may(origin):
    assert asyncio.run(handshake(("Origin", origin)))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "origin",
    [
        "https://other.example",
        "https://testserver",
        "http://testserver:8000",
        "http://localhost",
        "http://localhost:8001",
        "http://testserver.evil.example",
        "http://evil.testserver",
        "http://testserver@evil.example",
        "http://eviltestserver",
        "HTTP://TESTSERVER",
        "http://testserver/",
        "http://testserver:99999",
        "http://[::1",
        "testserver",
        "//testserver",
        "file://",
        "null",
        "*",
        "",
        "\u00e4",
    ],
)
def test_others_may_not(origin, caplog):
    caplog.set_level("INFO", "weei.denied")
    assert not asyncio.run(handshake(("Origin", origin)))
    assert [record.name for record in caplog.records] == ["weei.denied"]


def test_no_origin_and_two_origins_are_refused():
    assert not asyncio.run(handshake())
    assert not asyncio.run(handshake(("Origin", OWN), ("Origin", "https://other.example")))
    assert not asyncio.run(handshake(("Origin", OWN), ("Origin", OWN)))


@pytest.mark.django_db(transaction=True)
def test_every_host_allowed_does_not_allow_every_origin(settings):
    settings.ALLOWED_HOSTS = ["*"]
    assert not asyncio.run(handshake(("Origin", "https://other.example")))
    assert not asyncio.run(handshake())


def test_there_is_no_socket_at_another_address():
    assert not asyncio.run(handshake(("Origin", OWN), path="/ws/other"))
    assert not asyncio.run(handshake(("Origin", OWN), path="/"))


@pytest.mark.django_db(transaction=True)
def test_a_peer_says_hello_through_the_whole_application():
    _, token = peer_create()

    @in_loop
    async def hello():
        async with Socket(build(no_django), headers=[("Origin", OWN)]) as socket:
            assert (await socket.hello(token))["session"] == 1

    hello()


@pytest.mark.parametrize(
    "url, origin",
    [
        ("http://Example.org:80", "http://example.org"),
        ("https://example.org:443", "https://example.org"),
        ("https://example.org:8443", "https://example.org:8443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://192.168.1.5:8000", "http://192.168.1.5:8000"),
        ("example.org", None),
        ("ftp://example.org", None),
        ("http://example.org:port", None),
    ],
)
def test_a_public_url_is_compared_as_browsers_write_origins(url, origin):
    assert origin_of(url) == origin


# --- pages of other sites ---


@pytest.fixture
def site(transactional_db):
    return SiteOrigin.objects.create(origin=SITE, name="School")


def test_a_registered_origin_may_exactly_as_long_as_it_is_on(site):
    assert asyncio.run(handshake(("Origin", SITE)))
    for origin in (SITE + ":444", SITE + "/", SITE.upper(), "http://school.example", "https://x.school.example"):
        assert not asyncio.run(handshake(("Origin", origin)))
    SiteOrigin.objects.update(enabled=False)
    assert not asyncio.run(handshake(("Origin", SITE)))


class Page:
    """A page of the site in alice's browser: it has her cookie too, as pages of the same site on another port do."""

    def __init__(self, site):
        self.job = make_job(user=owner("alice"))
        self.token = peer_create()[1]
        self.user = user_token_create(owner("alice"), site, "state", timezone.now())[1]
        client = Client()
        client.force_login(owner("alice"))
        self.cookie = client.cookies[django_settings.SESSION_COOKIE_NAME].OutputString(attrs=[])

    def socket(self, origin=SITE):
        return Socket(build(no_django), headers=[("Origin", origin), ("Cookie", self.cookie)])

    async def said(self, origin=SITE, **fields):
        """The first answers to a hello that watches the job, up to the one that decides."""
        async with self.socket(origin) as socket:
            await socket.say("hello", protocol=1, token=self.token, train=False, watch=str(self.job.pk), **fields)
            while (frame := await socket.next())["type"] not in ("job", "error"):
                pass
            return frame.get("code", frame["type"]), frame.get("re")


@pytest.fixture
def page(site):
    return Page(site)


def test_whose_job_a_page_watches_only_its_token_says(page):
    assert asyncio.run(page.said(OWN)) == ("job", None)
    assert asyncio.run(page.said(user=page.user)) == ("job", None)
    assert asyncio.run(page.said()) == ("unauthorized", "watch")
    assert asyncio.run(page.said(user=page.user + "x")) == ("signed_out", "watch")
    assert asyncio.run(page.said(OWN, user=page.user)) == ("other_origin", "watch")
    other = SiteOrigin.objects.create(origin="https://other.example", name="Other")
    assert asyncio.run(page.said(other.origin, user=page.user)) == ("other_origin", "watch")
    stranger = user_token_create(owner("mallory"), SiteOrigin.objects.get(origin=SITE), "m", timezone.now())[1]
    assert asyncio.run(page.said(user=stranger)) == ("not_found", "watch")


def test_a_site_for_chosen_users_takes_no_guest(page):
    SiteOrigin.objects.update(audience="chosen")
    assert asyncio.run(page.said()) == ("sign_in_needed", "hello")
    assert asyncio.run(page.said(user=page.user)) == ("widget_not_enabled", "hello")
    SiteUser.objects.create(site=SiteOrigin.objects.get(), user=owner("alice"))
    assert asyncio.run(page.said(user=page.user)) == ("job", None)
    UserToken.objects.update(revoked_at=timezone.now())
    assert asyncio.run(page.said(user=page.user)) == ("signed_out", "hello")


async def closed_after(page, change):
    async with page.socket() as socket:
        await socket.hello(page.token, user=page.user)
        await asyncio.to_thread(change)
        return await socket.closed()


def test_a_socket_ends_soon_after_its_site(page, monkeypatch):
    monkeypatch.setattr(consumers, "PAGE_CHECK_SECONDS", 0.02)
    assert asyncio.run(closed_after(page, lambda: SiteOrigin.objects.update(enabled=False))) == 1008


def test_a_watch_ends_soon_after_its_token(page, monkeypatch):
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.02)

    async def run():
        async with page.socket() as socket:
            await socket.hello(page.token, user=page.user, watch=str(page.job.pk))
            await asyncio.to_thread(lambda: UserToken.objects.update(revoked_at=timezone.now()))
            return await socket.closed()

    assert asyncio.run(run()) == 1008
