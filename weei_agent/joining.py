"""From a link to a job: who we are, what we are asked to do, and the answer."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from weei_agent.identity import Identity, IdentityStore
from weei_agent.link import Link
from weei_agent.outcomes import Exit, Stop, UnknownPeer, first_error
from weei_agent.state import Invitation, PeerState, read
from weei_client import server as client
from weei_client.server import Problem, Server, Silent
from weei_core import js_json

T = TypeVar("T")
SUPPORTED_FEATURES = frozenset({"wasm-simd128"})
MIB = 1024 * 1024


async def identify(server: Server, store: IdentityStore) -> Identity:
    """The stored identity, or a new one from the server. From here on `server` speaks in its name."""
    identity = store.load()
    if identity is None:
        answer = await server.json("POST", "/api/v1/peers", {})
        identity = Identity(answer["peerId"], answer["token"])
        store.save(identity)
    server.authorize(identity.token)
    return identity


async def current_state(server: Server) -> PeerState:
    try:
        return read(PeerState, await server.json("GET", "/api/v1/peer/state"))
    except Problem as problem:
        raise refusal_of(problem) from None


async def is_member(server: Server, identity: Identity, link: Link) -> bool:
    """Whether this very link was accepted before and its job is still this peer's."""
    job_id = identity.job_of(link.token)
    if job_id is None:
        return False
    job = (await current_state(server)).job
    return job is not None and job.id == job_id


async def open_invitation(server: Server, link: Link) -> Invitation:
    try:
        return read(Invitation, await server.json("POST", "/api/v1/invitations/open", {"token": link.token}))
    except Problem as problem:
        raise refusal_of(problem) from None


async def leave(server: Server, store: IdentityStore) -> None:
    """Leave whatever job the stored identity is in. Ends by raising `Stop`."""
    identity = store.load()
    if identity is None:
        raise Stop(Exit.COMPLETED, "This agent belongs to no job on this server.")
    server.authorize(identity.token)
    job = (await current_state(server)).job
    if job is None:
        raise Stop(Exit.COMPLETED, "This agent belongs to no job on this server.")
    try:
        await server.json("POST", "/api/v1/peer/leave", {"jobId": job.id})
    except Problem as problem:
        raise refusal_of(problem) from None
    raise Stop(Exit.COMPLETED, f"Left “{job.name}”.")


def refusal_of(problem: Problem) -> Stop:
    if problem.code == "unauthorized":
        return UnknownPeer()
    if problem.code == "leave_first":
        return Stop(
            Exit.REFUSED,
            "This agent still takes part in another job on this server; "
            "start it with --leave to end that, or with another --name to do both.",
        )
    return Stop(Exit.REFUSED, problem.title)


def describe(invitation: Invitation) -> list[str]:
    """What a person decides on: what will run, what comes to this machine, and what leaves it."""
    module, data = invitation.module, invitation.data
    info = invitation.modelInfo
    lines = [
        f"{invitation.coordinator} invites you to train “{invitation.jobName}”.",
        f"Model       {info.get('name')} ({info.get('id')} {info.get('version')})",
        f"Module      {module.fileName}, {amount(module.bytes)}, SHA-256 {module.sha256}",
        f"Settings    {', '.join(f'{name} {js_json.dumps(value)}' for name, value in invitation.settings.items())}",
        f"Downloads   the module, once; weights of {amount(invitation.weightBytes)}, each round",
    ]
    for extra in invitation.auxiliary:
        lines.append(f"            auxiliary weights {extra.id}, {amount(extra.bytes)}")
    if data and data.chunks:
        lines.append(
            f"            chunks of at most {amount(data.largestChunkBytes)}, one each round"
            f" ({data.chunks} chunks, {amount(data.bytes)} and {data.examples} examples in all)"
        )
    lines.append(
        f"Uploads     trained weights of {amount(invitation.weightBytes)} each round, training metrics and counts,"
        " and how this machine does (system, cores, speed). Nothing else is read or sent."
    )
    return lines


def missing_here(invitation: Invitation, memory_mib: int) -> list[str]:
    """Why this machine cannot run the model, known before anything is downloaded."""
    needs = invitation.requirements
    lines = [f"the feature {name}" for name in needs.requiredFeatures if name not in SUPPORTED_FEATURES]
    working = needs.estimatedWorkingBytes or 0
    if working > memory_mib * MIB:
        lines.append(f"{amount(working)} of memory (--memory-mib is {memory_mib})")
    return lines


def amount(size: int) -> str:
    for unit, power in (("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size} bytes"


async def unless_silent(server: Server, minutes: float, work: Awaitable[T]) -> T:
    """Await `work`, but raise `Stop` once the server was not heard for so long."""
    try:
        return await client.unless_silent(server, minutes * 60, work)
    except Silent:
        raise Stop(Exit.UNREACHABLE, f"{server.origin} did not answer for {minutes:g} minutes; giving up.") from None
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
