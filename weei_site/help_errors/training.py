"""Codes that come up while training, and those of programs."""

from __future__ import annotations

from weei_site.help_errors.entry import Entry, Group

TRAINING = Group(
    "While training",
    (
        Entry(
            "stale_attempt",
            "This work was given to somebody else",
            "It took too long, the connection was away, or the round ended. The result is not averaged.",
            "Nothing to do: the browser starts from the newest checkpoint by itself.",
        ),
        Entry(
            "already_received",
            "An update was accepted before",
            "Other bytes came for work that is done. The first are kept.",
            "Nothing to do.",
        ),
        Entry(
            "wrong_size",
            "The update has another size than the weights",
            "The module returned too much or too little. This attempt failed; the item is dealt again.",
            "If it happens three times the job pauses: retry or skip the item, or correct the model.",
        ),
        Entry(
            "non_finite",
            "The update holds values that are not finite",
            "Training diverged on this participant. The update was refused.",
            "Lower the learning rate. If one chunk always does it, look at its data.",
        ),
        Entry(
            "non_finite_step",
            "The merge gave values that are not finite",
            "The step of FedAvgM or FedAdam was too large. The checkpoint before is kept, and so are the updates.",
            "Lower the server learning rate in the settings, then press Resume: the same round is merged again.",
        ),
        Entry(
            "no_weight",
            "There is nothing to average",
            "No update of the round counts any example.",
            "Resume to deal the round again.",
        ),
        Entry(
            "nothing_finished",
            "A simulated round came to nothing",
            "No participant of the simulation finished a unit, so there was nothing to merge.",
            "Look at the settings and at the module; the message names the round.",
        ),
        Entry(
            "invalid_report",
            "The report of an update does not fit",
            "Counts are missing or larger than what was assigned. This attempt failed.",
            "The module reports wrong counts: ask its author.",
        ),
        Entry(
            "invalid_message",
            "A message was not understood",
            "The page or agent may be older than the server.",
            "Reload the page, or update the agent.",
        ),
        Entry(
            "wrong_files",
            "The browser loaded other files than the job's",
            "The module or its auxiliary weights are not those of this job.",
            "Reload the page: it fetches the right ones.",
        ),
        Entry(
            "hello_first",
            "The connection began with the wrong message",
            "A program must introduce itself first, and once.",
            "Reload the page, or update the agent.",
        ),
    ),
)
OTHER = Group(
    "Everything else",
    (
        Entry(
            "error",
            "The request could not be done",
            "The message says why.",
            "If the message does not help, the server's log has the same line with its time.",
        ),
        Entry(
            "method_not_allowed",
            "This address does not take that method",
            "A program used the wrong kind of request.",
            "See the protocol in the documentation.",
        ),
        Entry(
            "length_required",
            "The length of the upload is missing",
            "A program sent a body without saying how long it is.",
            "Send Content-Length or Upload-Length.",
        ),
        Entry(
            "wrong_tus_version",
            "Another version of the upload protocol",
            "The server speaks tus 1.0.0.",
            "Use a client that does, and send Tus-Resumable.",
        ),
        Entry(
            "unsupported_media_type",
            "The body has another type than expected",
            "Slices are application/offset+octet-stream, commands are JSON.",
            "Set Content-Type.",
        ),
    ),
)
