"""Codes about files and settings."""

from __future__ import annotations

from weei_site.help_errors.entry import Entry, Group

FILES = Group(
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
            "A model that makes its own data, or has auxiliary weights, comes with a package manifest; a plain list of "
            "chunks is not enough.",
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
        Entry(
            "not_uploaded",
            "A file is not on the server yet",
            "The job names a file that was never sent completely.",
            "Choose the files again; what is there already is not sent twice.",
        ),
        Entry(
            "artifact_gone",
            "A file is not stored any more",
            "Files that nothing uses are removed after a while.",
            "Choose the file again and upload it.",
        ),
        Entry(
            "corrupt_artifact",
            "A stored file is damaged",
            "Its bytes do not have the hash they are stored under, so it is not used.",
            "Tell whoever runs the server; upload the file again.",
        ),
        Entry(
            "unreadable_data",
            "The module cannot read a data file",
            "Its inspection refused the file, or counted other examples than the manifest.",
            "Check format and example counts in the manifest against your data preparation.",
        ),
        Entry(
            "bad_rows",
            "Some records of the data file cannot be read",
            "The first of them are named by line, with what was found and what would fit. Nothing was made of it.",
            "Mend these lines and upload the file again, or leave out the column that they are in.",
        ),
        Entry(
            "not_compatible",
            "The checkpoint does not fit the model",
            "The module refused to load the weights.",
            "Choose the module the checkpoint was made with, or a compatible rebuild.",
        ),
        Entry(
            "other_chunks",
            "These are not the chunks of the checkpoint",
            "Restoring the saved progress needs the same chunk ids.",
            "Choose the same data, or continue with a new dataset.",
        ),
        Entry(
            "other_auxiliary",
            "These are not the auxiliary weights of the checkpoint",
            "The checkpoint records hashes of its auxiliary files; a job that continues from it uses the same ones.",
            "Choose the model and the auxiliary files that the checkpoint was made with.",
        ),
        Entry(
            "worker_lost",
            "Preparing ended without an answer",
            "The process that ran the module ended several times, often because it needed too much memory.",
            "Try a smaller model or chunk; the server's log may say more.",
        ),
    ),
)
