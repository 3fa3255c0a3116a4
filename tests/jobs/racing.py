"""Threads that meet in the database behind a barrier."""

import threading

from django.db import OperationalError, connection

TIMES = 50
"""For the races that the design names; the others are the same statements in other company."""
FEW = 20


def together(*calls):
    """Run all at the same instant; the result of each, or its exception. A deadlock is no result."""
    barrier = threading.Barrier(len(calls))
    results: list[object] = [None] * len(calls)

    def run(index, call):
        try:
            connection.ensure_connection()
            barrier.wait(30)
            results[index] = call()
        except Exception as error:
            results[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(i, call)) for i, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    for result in results:
        assert not isinstance(result, OperationalError), result
    return results
