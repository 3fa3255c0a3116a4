"""The pages of the help, in the order in which a person needs them; `help/<slug>.html` is the text of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    slug: str
    title: str
    summary: str


TOPICS = (
    Topic(
        "files",
        "Which files a job needs",
        "Module, manifest, data, validation, shaders: what they are, how to make them.",
    ),
    Topic(
        "packages",
        "Making a model of your own data",
        "From a table, a text or pictures to a model: kinds of data, tokens, sizes.",
    ),
    Topic("training", "How a job runs", "Rounds, people who join, models that make their own data, merge methods."),
    Topic("devices", "Devices that train", "Phones, Workers, the GPU, and what the card of diagnostics shows."),
    Topic("charts", "Reading the charts", "What the lines mean, what a gap is, and how long it still takes."),
    Topic("quality", "Is it trained, and is it good?", "How to verify a run step by step, and how to judge the model."),
)
