"""Several threads at one moment, each with a database connection of its own."""

import threading
from collections.abc import Callable
from typing import Any

from django.db import connections


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """What `act(0)` … `act(count - 1)` return or raise, each in a thread and a database connection of its own, let go together."""
    gate, found = threading.Barrier(count), [None] * count

    def one(number: int) -> None:
        try:
            gate.wait(20)
            found[number] = act(number)
        except Exception as error:
            found[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found
