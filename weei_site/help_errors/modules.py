"""Codes of a model module that runs where it is asked: weei_core/abi/errors.json."""

from __future__ import annotations

from weei_site.help_errors.entry import Entry, Group

_AUTHOR = "Ask the author of the model; the message names the operation."

MODULES = Group(
    "What a model module may do wrong",
    (
        Entry(
            "not_wasm",
            "The file is no WebAssembly module",
            "It is text, another kind of file, or made for another version of WebAssembly.",
            "Choose the .wasm file of the model.",
        ),
        Entry(
            "invalid_module",
            "The module is damaged",
            "It is a WebAssembly module, but not a valid one.",
            "Get the file again from where it came.",
        ),
        Entry(
            "feature_refused",
            "The module needs a feature that is not allowed",
            "It uses threads, shared memory or another part of WebAssembly that could make results differ.",
            "Ask the author of the model to build it without that feature.",
        ),
        Entry(
            "import_not_allowed",
            "The module wants more than it may have",
            "A model may report progress and nothing else: no clock, no network, no files.",
            "Do not use this module here, unless its author removes the import.",
        ),
        Entry(
            "export_missing", "The module lacks a part", "An operation that every model must have is missing.", _AUTHOR
        ),
        Entry(
            "export_signature",
            "A part of the module has another form",
            "An operation does not take what it should.",
            _AUTHOR,
        ),
        Entry(
            "memory_limit",
            "The model needs more memory than it may have",
            "Its memory, or that for compiling it, would pass the limit of this device or server.",
            "Use a smaller chunk or batch, or a device with more memory.",
        ),
        Entry(
            "time_limit",
            "The model took too long",
            "It did not answer within the time that it has, or stands in an endless loop.",
            "Try once more on a faster device. If it happens again, ask the author of the model.",
        ),
        Entry(
            "trap", "The model broke off", "It did something impossible, such as reading outside its memory.", _AUTHOR
        ),
        Entry(
            "crash",
            "The process that ran the model ended",
            "Often the system had no memory left.",
            "Close other programs or use a smaller chunk, then try again.",
        ),
        Entry("cancelled", "The work was stopped", "Its result was not wanted any more.", "Nothing to do."),
        Entry(
            "poisoned",
            "The model was asked again after it broke off",
            "What it would answer could be wrong, so it is not asked.",
            "Reload the page: it starts the model anew.",
        ),
        Entry(
            "re_entry", "The model was asked while it reported progress", "It cannot do two things at once.", _AUTHOR
        ),
        Entry(
            "alloc_failed",
            "The model found no room in its memory",
            "It was asked to make room for data and said no.",
            "Use a smaller chunk or batch.",
        ),
        Entry(
            "alloc_misaligned",
            "The model gave a place that cannot be used",
            "The address does not fit the data.",
            _AUTHOR,
        ),
        Entry("alloc_overlap", "The model gave the same place twice", "Data would overwrite other data.", _AUTHOR),
        Entry("out_of_bounds", "The model pointed outside its memory", "A result would lie where nothing is.", _AUTHOR),
        Entry("result_too_large", "The model's answer is too long", "An answer may have 1 MiB at most.", _AUTHOR),
        Entry(
            "invalid_result",
            "The model's answer cannot be read",
            "It is no JSON, or does not have the form it should.",
            _AUTHOR,
        ),
        Entry(
            "module_error",
            "The model refused",
            "The message is the model's own.",
            "Check that the data is in the format this model reads; otherwise ask its author.",
        ),
        Entry(
            "invalid_input",
            "The question has another form than the model takes",
            "The model says which inputs it has; this one does not fit.",
            "Correct the input that the message names.",
        ),
        Entry(
            "stalled",
            "The model stood still",
            "It reported no progress for minutes and was stopped. Its work goes to somebody else.",
            "If it happens again, a faster device or a smaller chunk helps.",
        ),
        Entry("stopped", "The model was stopped", "The page, or its owner, ended the work.", "Nothing to do."),
        Entry(
            "storage_failed",
            "This browser could not keep a file",
            "Its storage for sites reported an error.",
            "Nothing is lost: files are fetched again. Free some disk space, or leave private browsing.",
        ),
        Entry(
            "storage_missing",
            "This browser keeps nothing for sites",
            "Its storage is switched off, often in private browsing.",
            "Training works all the same, but files are fetched again after each reload.",
        ),
        Entry(
            "wrong_slots",
            "The auxiliary weights do not fit the model",
            "The files are not those that the module declares.",
            "Reload the page, or update the agent: it fetches the right ones.",
        ),
        Entry(
            "not_float32",
            "The weights are no whole numbers of float32 values",
            "A file of weights, or a result, has a size that is no multiple of four bytes.",
            "Get the file again, or ask the author of the model.",
        ),
        Entry(
            "worker",
            "A part of the page stopped",
            "The Worker that trains or uploads ended, often for lack of memory.",
            "Reload the page. What was received is kept.",
        ),
    ),
)
