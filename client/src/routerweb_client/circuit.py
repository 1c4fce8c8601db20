"""What a client remembers of a server that is away, so that its callers do not wait for it again and again."""

import threading
import time
from typing import Literal

#: Seconds that the server is left alone after a failed call, twice as many after each further one.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0

Admission = Literal["closed", "trial", "open"]


class Circuit:
    """Closed while the server answers. A call that fails opens it for a pause; then one call at a time is a trial, which closes it
    or opens it for twice as long. May be shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._trial_from = 0.0  # monotonic seconds; matters after a failure only
        self._on_trial = False

    def admit(self) -> Admission:
        """What a call may do: "closed" asks the server; "trial" asks it and says how that ended; "open" does not ask."""
        with self._lock:
            if not self._failures:
                return "closed"
            if self._on_trial or time.monotonic() < self._trial_from:
                return "open"
            self._on_trial = True
            return "trial"

    def succeeded(self) -> None:
        """The server answered, if only with a refusal."""
        with self._lock:
            self._failures, self._on_trial = 0, False

    def failed(self, pause: float = 0.0) -> None:
        """The server is away, for `pause` seconds at least where it said so."""
        with self._lock:
            if self._on_trial or not self._failures:
                self._failures = min(self._failures + 1, 16)
            grown = SHORTEST_PAUSE * 2.0 ** (self._failures - 1)
            self._trial_from = time.monotonic() + min(max(grown, pause), LONGEST_PAUSE)
            self._on_trial = False

    def end_trial(self) -> None:
        """A trial was broken off without word of the server: the next call is one."""
        with self._lock:
            self._on_trial = False
