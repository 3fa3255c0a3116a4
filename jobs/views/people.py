"""Invitation links, and what a coordinator does about participants."""

from __future__ import annotations

from uuid import UUID

import segno
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from django_htmx.http import trigger_client_event

from jobs.forms import InvitationForm
from jobs.selectors.access import job_for_owner
from jobs.services.participants import participant_pause, participant_remove
from jobs.views.access import CoordinatorRequest, coordinator
from jobs.views.actions import answer
from jobs.views.toasts import told
from peers.services.invitations import invitation_create, invitation_revoke

PARTICIPANT = {
    "remove": "The participant is removed. A new invitation lets it return.",
    "pause": "The participant is paused.",
    "resume": "The participant goes on.",
}


@never_cache
@require_POST
@coordinator
def invitation_new(request: CoordinatorRequest, job_id: UUID) -> HttpResponse:
    """The link and its code. Only its hash is stored, so this answer is the one place where it is shown."""
    job = job_for_owner(request.user, job_id)
    form = InvitationForm(request.POST)
    context: dict[str, object] = {"job": job, "invitation_form": form}
    if form.is_valid():
        invitation, url = invitation_create(job, form.cleaned_data["uses"], form.expires_at())
        context |= {"invitation": invitation, "url": url, "qr": qr_code(url)}
    template = "jobs/_new_invitation.html" if request.htmx else "jobs/invitation.html"
    return trigger_client_event(render(request, template, context), "weei:invitations")


def qr_code(url: str) -> str:
    """The address as SVG, dark on light in every colour scheme so that cameras read it."""
    svg: str = segno.make(url, error="m").svg_inline(
        border=3,
        dark="#111",
        light="#fff",
        omitsize=True,
        title="Invitation link as a QR code",
        svgclass=None,
        lineclass=None,
    )
    return mark_safe(svg)  # noqa: S308 - made here, of numbers only


@require_POST
@coordinator
def invitation_end(request: CoordinatorRequest, job_id: UUID, invitation_id: UUID) -> HttpResponse:
    job = job_for_owner(request.user, job_id)
    invitation_revoke(job, invitation_id)
    return told(request, answer(request, job, "invitations"), "The link is revoked.")


@require_POST
@coordinator
def participant_action(request: CoordinatorRequest, job_id: UUID, peer_id: UUID, action: str) -> HttpResponse:
    job = job_for_owner(request.user, job_id)
    if action == "remove":
        participant_remove(job, peer_id)
    elif action in ("pause", "resume"):
        participant_pause(job, peer_id, action == "pause")
    else:
        raise Http404
    return told(request, answer(request, job, "people"), PARTICIPANT[action])
