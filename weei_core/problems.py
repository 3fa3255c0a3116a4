"""The one shape in which an expected error goes over HTTP, RFC 9457 problem details, and the list of all its codes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weei_core.errors import WeeiError
from weei_core.log_context import current


def problem_body(error: WeeiError) -> dict[str, object]:
    """The members of the problem, in the order in which they are written. `instance` is the request's id, which stands
    in the server's log."""
    return {
        "type": f"/help/errors#{error.code}",
        "title": error.message,
        "status": error.status,
        "code": error.code,
        **({"field": error.field} if error.field else {}),
        **({"instance": f"urn:uuid:{request}"} if (request := current().get("request")) else {}),
        **{key: value for key, value in error.extra.items() if value is not None},
    }


class Code(NamedTuple):
    """`status` 0: never the answer of a call; it stands in a draft, a log, on a page or in a frame of the socket."""

    status: int
    meaning: str


CODES: dict[str, Code] = {
    # About the request
    "error": Code(400, "None of the others"),
    "invalid": Code(422, "A value that is not allowed; `field` names it"),
    "invalid_json": Code(422, "The body is not JSON, or has a member twice, or a number that no double holds"),
    "method_not_allowed": Code(405, "`Allow` names the methods of this address"),
    "too_slow": Code(408, "The body came too slowly"),
    "length_required": Code(411, "`Content-Length` is missing or no number"),
    "wrong_tus_version": Code(412, "`Tus-Resumable` must be 1.0.0"),
    "too_large": Code(413, "More bytes than the sentence allows; nothing was kept"),
    "unsupported_media_type": Code(415, "The content type of an upload's slice"),
    "rate_limited": Code(429, "Too often; `Retry-After` tells how many seconds to wait"),
    # Who asks
    "unauthorized": Code(401, "No such session, peer or token"),
    "signed_out": Code(401, "The user's token is unknown, revoked or expired, or the password changed"),
    "forbidden": Code(403, "Known, but not allowed; also a missing CSRF token"),
    "origin_not_registered": Code(403, "A page of an origin that no administrator registered"),
    "other_origin": Code(403, "The user's token was given to another origin"),
    "widget_not_enabled": Code(403, "The site is registered, but not for this user"),
    "sign_in_needed": Code(403, "The site is for chosen users, signed in"),
    "not_found": Code(404, "There is none, or it is not yours"),
    "invitation_invalid": Code(404, "The link is unknown, used up, revoked or expired"),
    "sign_in_link_invalid": Code(404, "A sign-in link that was used, or is too old"),
    # Not now
    "conflict": Code(409, "Right in itself, but not as things stand; look again"),
    "try_again": Code(409, "Somebody else was quicker; the same call may be made again"),
    "wrong_status": Code(409, "The job's status does not allow it"),
    "nobody_trains": Code(409, "There is no participant that could train"),
    "wrong_kind": Code(409, "Jobs of this kind cannot do it"),
    "no_evaluation": Code(409, "The model declares no evaluation"),
    "no_validation_file": Code(409, "The job has no validation file"),
    "no_inference": Code(409, "The model does not answer questions"),
    "artifact_gone": Code(409, "A file was collected; upload it again"),
    "corrupt_artifact": Code(409, "A stored file does not have its hash any more; it is not served"),
    "leave_first": Code(409, "Another job is current in this browser"),
    "not_a_member": Code(409, "The peer does not take part (any more)"),
    "decided": Code(409, "The invitation was answered before, with the other word, or withdrawn"),
    "job_ended": Code(409, "The job is completed"),
    "wrong_files": Code(409, "`ready` named other files than the job's"),
    "stale_attempt": Code(409, "The attempt is over; `round` and `checkpoint` tell where the job is now"),
    "already_received": Code(409, "Other bytes came for an attempt that was accepted; the first are kept"),
    # What was sent
    "not_uploaded": Code(422, "Upload the files that `files` names first"),
    "hash_mismatch": Code(422, "The bytes are not those that were declared; they may be sent again once"),
    "wrong_size": Code(422, "The update has another length than the weights"),
    "non_finite": Code(422, "The update holds a number that is not finite"),
    "invalid_report": Code(422, "The report of an update does not fit"),
    "model_error": Code(422, "The module refused, trapped, or broke its contract"),
    # The server
    "busy": Code(503, "Too many uploads at once; `Retry-After` tells when to come back"),
    "unavailable": Code(503, "A service that is needed is away; `Retry-After` tells when to come back"),
    "taken_over": Code(503, "Another connection goes on with this upload"),
    "storage_full": Code(507, "The disk or the person's quota is full"),
    # Elsewhere than in answers
    "hello_first": Code(0, "Socket: something else came before hello, or hello came twice"),
    "invalid_message": Code(0, "Socket: a message that does not fit"),
    "not_a_chunk_list": Code(0, "The manifest is no list of chunks"),
    "package_needed": Code(0, "An experience model needs its package"),
    "other_chunks": Code(0, "The checkpoint was trained on other chunks"),
    "other_auxiliary": Code(0, "The checkpoint was trained with other auxiliary files"),
    "not_compatible": Code(0, "The module and the package do not belong together"),
    "unreadable_data": Code(0, "The model could not read a chunk"),
    "bad_rows": Code(0, "Rows of a data file that cannot be used; the first are listed"),
    "invalid_module": Code(0, "The module is no WebAssembly that can be run here"),
    "truncated": Code(0, "A file ends too early"),
    "not_float32": Code(0, "The weights are no whole number of 32-bit floats"),
    "metadata_length": Code(0, "A checkpoint file's metadata have another length than announced"),
    "metadata_too_large": Code(0, "A checkpoint file's metadata are too large"),
    "wrong_hash": Code(0, "A part of a checkpoint file does not have its hash"),
    "wrong_slots": Code(0, "The assignment fills other slots than the model declares"),
    "memory_limit": Code(0, "The module needs more memory than it may have"),
    "worker_lost": Code(0, "The worker ended in each try"),
    "no_weight": Code(0, "No update counts anything, so that there is nothing to average"),
    "non_finite_step": Code(0, "The merge made a number that is not finite"),
    "nothing_finished": Code(0, "Simulation: no participant finished"),
}
"""By code. Codes are stable: within a version none changes its meaning or its status."""


def table() -> str:
    """All codes as Markdown, for docs/http-api.md."""
    rows = [f"| `{name}` | {code.status or '–'} | {code.meaning} |" for name, code in CODES.items()]
    return "\n".join(["| code | status | meaning |", "| --- | --- | --- |", *rows])


def in_document(text: str) -> str:
    """The document with the table between its two marks."""
    begin, end = "<!-- codes: python -m weei_core.problems -->\n", "<!-- /codes -->"
    before, _, rest = text.partition(begin)
    return before + begin + table() + "\n" + end + rest.partition(end)[2]


if __name__ == "__main__":
    path = Path(__file__).resolve().parent.parent / "docs" / "http-api.md"
    path.write_text(in_document(path.read_text(encoding="utf-8")), encoding="utf-8")
