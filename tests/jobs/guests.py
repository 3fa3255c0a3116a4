"""Peers before they take part: short forms of what the tests of participants do to them."""

from django.utils.timezone import now

from jobs.services import participants
from peers.models import Membership, Peer
from peers.services.tokens import peer_create


def token_of(url):
    return url.rstrip("/").split("/")[-1]


def guest() -> Peer:
    return peer_create()[0]


def decide(peer, job, accepted=True):
    return participants.invitation_decide(peer, job.pk, accepted, now())


def member(peer, job) -> Membership:
    return Membership.objects.get(peer=peer, job=job)
