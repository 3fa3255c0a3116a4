"""Who may call what: one row for every call of the API, every page, every download and every message of the socket.

`test_matrix.py` takes the calls from the URLconf, the API's own description and the protocol, so that a new one without
a row here fails.
"""

from __future__ import annotations

# Answers: "yes" is anything that is not a refusal for who asks (409 and 422 are about the job, not the person).
YES, NO_SESSION, NOT_THERE, FORBIDDEN, SIGN_IN = "yes", 401, 404, 403, 302

EVERYBODY = dict.fromkeys(("anonymous", "stranger", "invited", "left", "participant", "owner"), YES)
PEERS = {**EVERYBODY, "anonymous": NO_SESSION}
SIGNED_IN = {
    **dict.fromkeys(("anonymous", "invited", "left", "participant"), NO_SESSION),
    "stranger": YES,
    "owner": YES,
}
OWNER = {**SIGNED_IN, "stranger": NOT_THERE}
MEMBERS = {**PEERS, "stranger": NOT_THERE}
STILL_MEMBERS = {**MEMBERS, "left": NOT_THERE}
ATTEMPT = {
    **dict.fromkeys(("stranger", "invited", "left", "owner"), NOT_THERE),
    "anonymous": NO_SESSION,
    "participant": YES,
}
OWNER_PAGE = {
    **dict.fromkeys(("anonymous", "invited", "left", "participant"), SIGN_IN),
    "stranger": NOT_THERE,
    "owner": YES,
}
SIGNED_IN_PAGE = {**OWNER_PAGE, "stranger": YES}
NOBODY = dict.fromkeys(EVERYBODY, SIGN_IN)
BYTES_ALWAYS = {
    **{"anonymous": NO_SESSION, "stranger": NOT_THERE, "invited": FORBIDDEN, "left": FORBIDDEN},
    **{"participant": YES, "owner": YES},
}
BYTES_OWNER = {**BYTES_ALWAYS, "participant": FORBIDDEN}
CHECKPOINT = {**SIGNED_IN, "stranger": NOT_THERE}
PACKAGE = CHECKPOINT

JOB = "/api/v1/jobs/{job_id}"
PACKAGE_PATH = "/api/v1/packages/{package_id}"
API: dict[tuple[str, str], tuple[dict, dict | None]] = {
    ("post", "/api/v1/peers"): (EVERYBODY, {}),
    ("get", "/api/v1/site"): (EVERYBODY, None),
    ("post", "/api/v1/site/sign-out"): (dict.fromkeys(EVERYBODY, NO_SESSION), None),
    ("get", "/api/v1/peer/state"): (PEERS, None),
    ("post", "/api/v1/invitations/open"): (PEERS, {"token": "{token}"}),
    ("get", "/api/v1/invitations/{job_id}"): (STILL_MEMBERS, None),
    ("post", "/api/v1/invitations/decide"): (MEMBERS, {"jobId": "{job_id}", "accepted": True}),
    ("post", "/api/v1/peer/ready"): (MEMBERS, {"jobId": "{job_id}", "moduleSha256": "0" * 64}),
    ("post", "/api/v1/peer/load-failed"): (MEMBERS, {"jobId": "{job_id}", "reason": "x"}),
    ("post", "/api/v1/peer/attempts/{attempt_id}/failed"): (ATTEMPT, {"reason": "x"}),
    ("post", "/api/v1/peer/pause"): (MEMBERS, {"jobId": "{job_id}", "paused": True}),
    ("post", "/api/v1/peer/leave"): (MEMBERS, {"jobId": "{job_id}"}),
    ("get", "/api/v1/peer/job"): (PEERS, None),
    ("get", "/api/v1/peer/job/checkpoints"): (PEERS, None),
    ("get", "/api/v1/storage"): (SIGNED_IN, None),
    ("post", "/api/v1/artifacts/held"): (SIGNED_IN, {"hashes": []}),
    ("post", "/api/v1/jobs"): (SIGNED_IN, {}),
    ("get", "/api/v1/jobs"): (SIGNED_IN, None),
    ("get", "/api/v1/drafts/{draft_id}"): (OWNER, None),
    ("get", JOB): (OWNER, None),
    ("delete", JOB): (OWNER, None),
    **{("post", f"{JOB}/{name}"): (OWNER, {}) for name in ("open", "leave", "start", "pause", "resume", "finish")},
    **{("post", f"{JOB}/{name}"): (OWNER, {}) for name in ("shuffle", "validation", "invitations")},
    **{("post", f"{JOB}/{name}"): (OWNER, {"item": "{item}"}) for name in ("retry-item", "skip-item")},
    ("patch", f"{JOB}/settings"): (OWNER, {"epochs": 4}),
    ("get", f"{JOB}/invitations"): (OWNER, None),
    ("post", f"{JOB}/invitations/{{invitation_id}}/revoke"): (OWNER, {}),
    ("post", f"{JOB}/participants/{{peer_id}}/invite"): (OWNER, {}),
    ("post", f"{JOB}/participants/{{peer_id}}/remove"): (OWNER, {}),
    ("post", f"{JOB}/participants/{{peer_id}}/pause"): (OWNER, {"paused": True}),
    ("get", f"{JOB}/chunks"): (OWNER, None),
    ("get", f"{JOB}/log"): (OWNER, None),
    ("get", f"{JOB}/checkpoints"): (OWNER, None),
    **{("get", f"{JOB}/{name}"): (OWNER, None) for name in ("metrics.csv", "tensorboard")},
    ("get", f"{JOB}/checkpoints/{{round_no}}/ledger"): (OWNER, None),
    ("get", f"{JOB}/checkpoints/{{round_no}}"): (OWNER, None),
    ("get", f"{JOB}/checkpoints/{{round_no}}/files"): (OWNER, None),
    **{("get", f"{JOB}/{name}"): (OWNER, None) for name in ("participants", "debug-log", "metrics", "manifest")},
    ("get", "/api/v1/drafts"): (SIGNED_IN, None),
    ("post", "/api/v1/drafts/{draft_id}/retry"): (OWNER, {}),
    ("get", "/api/v1/presets"): (SIGNED_IN, None),
    ("post", "/api/v1/settings/check"): (SIGNED_IN, {}),
    ("get", "/api/v1/packages"): (SIGNED_IN, None),
    ("post", "/api/v1/packages"): (SIGNED_IN, {}),
    ("get", PACKAGE_PATH): (OWNER, None),
    ("delete", PACKAGE_PATH): (OWNER, None),
    ("get", f"{PACKAGE_PATH}/files"): (OWNER, None),
    **{("post", f"{PACKAGE_PATH}/{name}"): (OWNER, {}) for name in ("inspect", "preview", "make", "cancel", "job")},
    ("get", "/api/v1/connected-sites"): (SIGNED_IN, None),
    # Nobody here has let a site act for them.
    ("post", "/api/v1/connected-sites/{token_id}/revoke"): (
        {**SIGNED_IN, "stranger": NOT_THERE, "owner": NOT_THERE},
        {},
    ),
}

# By the name of the URL: who, method, form fields or arguments.
PAGES: dict[str, tuple[dict, str, dict]] = {
    "api-docs": (EVERYBODY, "get", {}),
    "api-openapi": (EVERYBODY, "get", {}),
    "api-asyncapi": (EVERYBODY, "get", {}),
    "home": (EVERYBODY, "get", {}),
    "login": (EVERYBODY, "get", {}),
    "sign-in-link": (dict.fromkeys(EVERYBODY, NOT_THERE), "get", {"token": "guessed"}),
    "logout": (EVERYBODY, "post", {}),
    # Without a registered origin in its query.
    "authorize": ({**SIGNED_IN_PAGE, "stranger": FORBIDDEN, "owner": FORBIDDEN}, "get", {}),
    "connected-sites": (SIGNED_IN_PAGE, "get", {}),
    "connected-site-revoke": (
        {**SIGNED_IN_PAGE, "stranger": NOT_THERE, "owner": NOT_THERE},
        "post",
        {"token_id": "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"},
    ),
    "access-tokens": (SIGNED_IN_PAGE, "get", {}),
    "access-token-revoke": (
        {**SIGNED_IN_PAGE, "stranger": NOT_THERE, "owner": NOT_THERE},
        "post",
        {"token_id": "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"},
    ),
    "help": (EVERYBODY, "get", {}),
    "help-errors": (EVERYBODY, "get", {}),
    "help-topic": (EVERYBODY, "get", {"slug": "training"}),
    "join": (EVERYBODY, "get", {"token": "guessed"}),
    "train": (EVERYBODY, "get", {}),
    "job-list": (SIGNED_IN_PAGE, "get", {}),
    "job-new": (SIGNED_IN_PAGE, "get", {}),
    "job-new-settings": (SIGNED_IN_PAGE, "post", {}),
    "job-new-fields": (SIGNED_IN_PAGE, "post", {}),
    "job-new-advice": (SIGNED_IN_PAGE, "post", {}),
    "job-continue": (SIGNED_IN_PAGE, "get", {}),
    "job-compare": (SIGNED_IN_PAGE, "get", {}),
    "job-detail": (OWNER_PAGE, "get", {}),
    "job-panel": (OWNER_PAGE, "get", {"name": "overview"}),
    "job-chart": (OWNER_PAGE, "get", {}),
    "job-log": (OWNER_PAGE, "get", {}),
    "job-manifest": (OWNER_PAGE, "get", {}),
    "job-play": (OWNER_PAGE, "get", {}),
    "job-play-newest": (OWNER_PAGE, "get", {}),
    "job-play-files": (OWNER_PAGE, "get", {}),
    "job-rounds": (OWNER_PAGE, "get", {}),
    "job-round": (OWNER_PAGE, "get", {"round_no": 1}),
    "job-checkpoints": (OWNER_PAGE, "get", {}),
    "job-checkpoint": (OWNER_PAGE, "get", {}),
    "job-validate": (OWNER_PAGE, "post", {}),
    "job-continue-from": (OWNER_PAGE, "get", {}),
    "job-action": (OWNER_PAGE, "post", {"action": "pause"}),
    "item-action": (OWNER_PAGE, "post", {"action": "skip"}),
    "job-settings": (OWNER_PAGE, "post", {}),
    "job-delete": (OWNER_PAGE, "get", {}),
    # Of a job that was not deleted: nothing to bring back.
    "job-restore": ({**SIGNED_IN_PAGE, "stranger": NOT_THERE, "owner": NOT_THERE}, "post", {}),
    "invitation-new": (OWNER_PAGE, "post", {}),
    "invitation-revoke": (OWNER_PAGE, "post", {}),
    "participant-action": (OWNER_PAGE, "post", {"action": "pause"}),
    "package-list": (SIGNED_IN_PAGE, "get", {}),
    "package-new": (SIGNED_IN_PAGE, "post", {}),
    "package": (OWNER_PAGE, "get", {}),
    "package-progress": (OWNER_PAGE, "get", {}),
    "package-sizes": (OWNER_PAGE, "post", {}),
    "package-action": (OWNER_PAGE, "post", {"action": "cancel"}),
    "package-start": (OWNER_PAGE, "post", {}),
    "package-delete": (OWNER_PAGE, "get", {}),
}

# By what a hash names in the job.
BYTES = {
    "module": BYTES_ALWAYS,
    "weights": BYTES_ALWAYS,
    "chunk of the attempt": BYTES_ALWAYS,
    "another chunk": BYTES_OWNER,
    "validation file": BYTES_OWNER,
}

# By the name of a route of /bytes/ (checkpoints/bytes/app.py). An artifact's row is the one of its kind, above; uploads
# are files of a person here (updates of peers: tests/checkpoints/test_uploads.py), and an upload is the owner's own.
BYTES_ROUTES = {
    "uploads": SIGNED_IN,
    "upload": {**OWNER, **dict.fromkeys(("invited", "left", "participant"), NOT_THERE)},
    "artifact": BYTES_ALWAYS,
    "checkpoint": CHECKPOINT,
    "weights": CHECKPOINT,
    "package": PACKAGE,
}

# By the type of a message. A refused watch is an error frame; the socket stays open.
MESSAGES = {
    "hello": PEERS,
    "heartbeat": PEERS,
    "diagnostics": PEERS,
    "watch": {**dict.fromkeys(EVERYBODY, NO_SESSION), "stranger": NOT_THERE, "owner": YES},
}
