"""What every error code means to a person. `tests/pages/test_help.py` fails when a code has no entry here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """`code` is the anchor on the help page and the `code` of the problem details."""

    code: str
    title: str
    meaning: str
    action: str


@dataclass(frozen=True)
class Group:
    title: str
    entries: tuple[Entry, ...]


_ACCESS = Group(
    "Who may do what",
    (
        Entry(
            "unauthorized",
            "The server does not know who is asking",
            "Your session ended, or this browser's guest identity is not known here any more.",
            "Sign in again. A participant's browser gets a new identity when you open an invitation again.",
        ),
        Entry(
            "forbidden",
            "You may not do this",
            "You are known, but this belongs to somebody else or to another role.",
            "Sign in as the coordinator of the job, or accept an invitation first.",
        ),
        Entry(
            "not_found",
            "There is nothing at this address",
            "It was deleted, never existed, or is not yours to see.",
            "Go back to the list of jobs and open it from there.",
        ),
        Entry(
            "invitation_invalid",
            "This invitation link does not work",
            "It was used up, revoked, has expired, or is not complete. All four look the same on purpose.",
            "Ask the coordinator for a new link. Links break when a mail program cuts them: copy the whole line.",
        ),
        Entry(
            "sign_in_link_invalid",
            "This sign-in link does not work",
            "It works once and for one day, and every sign-in ends the links made before it.",
            "Sign in with your password, or have a new link made.",
        ),
        Entry(
            "rate_limited",
            "Too many requests",
            "More requests came from here than the server answers in this time.",
            "Wait a minute. Nothing that was accepted is lost.",
        ),
    ),
)
_NOW = Group(
    "Right, but not now",
    (
        Entry(
            "conflict",
            "Something changed meanwhile",
            "The request was about a state that is over.",
            "Look at the page again; it shows the state as it is.",
        ),
        Entry(
            "wrong_status",
            "The job is in another state",
            "Starting needs a job that is ready, resuming one that is paused, and so on.",
            "Reload the page: its buttons are those that work now.",
        ),
        Entry(
            "leave_first",
            "Another job is current in this browser",
            "A browser works for one job at a time.",
            "Open “This browser” and leave the current job, then try again. The job itself goes on.",
        ),
        Entry(
            "try_again",
            "Somebody else was quicker",
            "Two requests met; one of them won.",
            "Do it once more.",
        ),
        Entry(
            "unavailable",
            "The server is busy or a part of it is away",
            "This passes by itself.",
            "Wait for the time the answer names, then try again. Browsers and agents do so on their own.",
        ),
    ),
)
_FILES = Group(
    "Files and settings",
    (
        Entry(
            "invalid",
            "Something in the request does not fit",
            "The message names the field, what was found, and what is allowed.",
            "Correct that field. When files are wrong, all wrong files are listed at once.",
        ),
        Entry(
            "invalid_json",
            "A file or message is not the JSON it should be",
            "Usual causes: a byte order mark that an editor added, a key that occurs twice, NaN, or a cut file.",
            "Save the file as UTF-8 without a byte order mark and check the place that the message names.",
        ),
        Entry(
            "not_a_chunk_list",
            "The manifest is not a list of chunks",
            "A dataset manifest is a JSON array with one entry per data file.",
            "Choose the manifest that your data preparation wrote, not another JSON file.",
        ),
        Entry(
            "package_needed",
            "This model needs its package",
            "A model that makes its own data describes itself in a package manifest; a plain list is not enough.",
            "Choose the manifest.json that came with the model.",
        ),
        Entry(
            "hash_mismatch",
            "The bytes are not those that were announced",
            "The file changed on the way or on the disk.",
            "Choose the file again. If it happens twice, write the manifest anew from the files you have.",
        ),
        Entry(
            "wrong_hash",
            "A hash inside the file does not fit its contents",
            "The file is damaged or was changed by hand.",
            "Get the file again from where it came.",
        ),
        Entry("truncated", "The file ends too early", "It was cut while it was copied.", "Copy or download it again."),
        Entry(
            "metadata_length",
            "The head of the checkpoint file does not fit the file",
            "The file is cut, or it is not a .weei-checkpoint file.",
            "Download the checkpoint again.",
        ),
        Entry(
            "metadata_too_large",
            "The checkpoint's head would pass 1 MiB",
            "The head lists every chunk, and this job has too many of them or their names are too long.",
            "Make fewer, larger chunks or shorter ids.",
        ),
        Entry(
            "too_large",
            "Too many bytes",
            "The message names the limit. It is refused before anything is read.",
            "Use a smaller file: split data into more chunks.",
        ),
        Entry(
            "storage_full",
            "No room on the server",
            "The disk is nearly full, or your share of it is used up.",
            "Delete jobs you do not need. Their checkpoints go with them: download what you want to keep.",
        ),
        Entry(
            "model_error",
            "The model module refused or broke",
            "The message says which operation failed and what the module said.",
            "Check that the data is in the format this model reads; otherwise ask the author of the model.",
        ),
    ),
)
_TRAINING = Group(
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
    ),
)
_OTHER = Group(
    "Everything else",
    (
        Entry(
            "error",
            "The request could not be done",
            "The message says why.",
            "If the message does not help, the server's log has the same line with its time.",
        ),
    ),
)
GROUPS: tuple[Group, ...] = (_ACCESS, _NOW, _FILES, _TRAINING, _OTHER)
