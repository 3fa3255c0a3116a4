"""A Django process that stays: each line of its input is code to run, each line of its output what came of it.

Django takes one to two seconds to start; a test asks dozens of questions.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from typing import Any


def main() -> None:
    # Whatever the code prints goes to stderr; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import django

    django.setup()
    from django.db import close_old_connections

    logging.disable(logging.WARNING)
    for line in sys.stdin:
        close_old_connections()
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


def run(question: dict[str, Any]) -> dict[str, Any]:
    scope = {"answer": None, **question["values"]}
    try:
        exec(question["code"], scope)
        json.dumps(scope["answer"])
    except Exception:
        return {"error": traceback.format_exc()}
    return {"answer": scope["answer"]}


if __name__ == "__main__":
    main()
