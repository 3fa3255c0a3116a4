"""Whether participants work with the same settings and the same model, and who differs in what. The page computes the
same from what it is told (static/pages/diagnostics/comparing.js); tests/golden/card.json holds both to one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weei_core import js_json

Facts = Mapping[str, str]
SETTINGS = {"batch size": "batchSize", "local epochs": "localEpochs", "learning rate": "learningRate"}
SHORT_HASH = 12


@dataclass(frozen=True)
class Comparison:
    """`differing` says of a peer, in its own words, what is not as with most of the others."""

    sentence: str
    tone: str
    differing: Mapping[str, str]


def facts_of(snapshot: Mapping[str, Any]) -> Facts:
    """What is compared, as texts. What a peer does not tell is left out: it is no difference."""
    assignment, model = snapshot.get("assignment"), snapshot.get("model")
    found: dict[str, str] = {}
    if isinstance(assignment, dict):
        values = {name: assignment.get(member, "unknown") for name, member in SETTINGS.items()}
        found |= {name: js_json.dumps(value) for name, value in values.items() if value != "unknown"}
    if isinstance(model, dict):
        found["model"] = f"{model.get('id')} {model.get('version')}"
        found["module"] = str(model.get("wasmSha256"))[:SHORT_HASH]
        wgsl = model.get("wgsl")
        if isinstance(wgsl, dict):
            found["shaders"] = ", ".join(sha256[:SHORT_HASH] for sha256 in wgsl["sha256"]) or "none"
    return found


def compare(everyone: Mapping[str, Facts]) -> Comparison:
    """Each is measured by what most of them have; of two values that are equally common, the one that came first."""
    counts: dict[str, Counter[str]] = {}
    for facts in everyone.values():
        for name, value in facts.items():
            counts.setdefault(name, Counter())[value] += 1
    usual = {name: counter.most_common(1)[0][0] for name, counter in counts.items()}
    differing = {
        peer: ", ".join(
            f"{name} {value} instead of {usual[name]}" for name, value in facts.items() if value != usual[name]
        )
        for peer, facts in everyone.items()
    }
    differing = {peer: text for peer, text in differing.items() if text}
    reporting = sum(1 for facts in everyone.values() if facts)
    if reporting < 2:
        told = "One participant tells its settings and model" if reporting else "Nobody has told settings or model yet"
        return Comparison(f"{told}: there is nothing to compare.", "", {})
    if differing:
        verb = "differs" if len(differing) == 1 else "differ"
        return Comparison(f"{len(differing)} of {reporting} participants {verb} from the others.", "warn", differing)
    compared = [name for name, counter in counts.items() if counter.total() > 1]
    what = [word for word, names in (("settings", SETTINGS), ("model", {"module"})) if set(names) & set(compared)]
    if not what:
        told = f"The {reporting} participants that tell have told nothing yet that could be compared."
        return Comparison(told, "", {})
    return Comparison(f"All {reporting} participants that tell use the same {' and the same '.join(what)}.", "good", {})
