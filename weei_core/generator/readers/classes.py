"""Names of classes: numbered as they are met, then put in an order that does not depend on the order of records."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from weei_core.errors import Invalid
from weei_core.strict_json import shown

MAX_CLASSES = 1_000
MAX_CLASS_BYTES = 200

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


class ClassNumbers:
    """`names` in the order in which they were first met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return list(self._numbers)

    def number(self, name: str) -> int:
        """Raises Invalid, with what follows "line 7" in a sentence, for a name that cannot be one."""
        found = self._numbers.get(name)
        if found is not None:
            return found
        if len(name.encode(errors="surrogatepass")) > MAX_CLASS_BYTES or _CONTROL.search(name):
            raise Invalid(f"must have a class of at most {MAX_CLASS_BYTES} bytes on one line; found {shown(name)}")
        if len(self._numbers) >= MAX_CLASSES:
            raise Invalid(
                f"has class {shown(name)} beyond the {MAX_CLASSES} that are allowed. Is the label a quantity? Then the "
                "task is regression"
            )
        return self._numbers.setdefault(name, len(self._numbers))

    def ordered(self) -> tuple[list[str], NDArray[np.uint32]]:
        """The names in their final order, and for each number given so far the place in it.

        Whole numbers stand in their own order, anything else in that of its characters.
        """
        whole = all(_WHOLE.fullmatch(name) for name in self._numbers)
        names = sorted(self._numbers, key=lambda name: (int(name) if whole else 0, name))
        places = {name: place for place, name in enumerate(names)}
        return names, np.array([places[name] for name in self._numbers], np.uint32)
