"""`python -I -S supervisor.py COUNT COMMAND...` keeps so many processes of a command alive, until Ctrl-C, SIGTERM or SIGHUP.

It stands beside the web workers for as long as they serve, so it imports nothing that the interpreter has not loaded anyway: this
process is 4 MB, where one that had imported the server would be three times that.
"""

import os
import signal
import sys
import time

#: A worker that ends so soon after its start will not do better when it is started again.
YOUNG_SECONDS = 5.0
#: How long workers may take to answer what they have and to write their decisions; then they are killed.
END_SECONDS = 10.0
#: Heard by `sigwait` alone: no handler comes between the start of a process and its book-keeping.
HEARD = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
#: What a terminal sends to all processes at once, and workers leave to this one, which ends them in order.
NOT_FOR_WORKERS = {signal.SIGINT, signal.SIGHUP}


class Workers:
    """Processes of one command, by pid, with the time of their start; `replacements` took the place of another."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.started: dict[int, float] = {}
        self.replacements: set[int] = set()

    def start(self) -> int:
        """Start one more; its pid."""
        # By this name a worker knows its parent, and ends with it: see `lifeline`, which would be too large for this process.
        environment = {**os.environ, "ROUTERWEB_PARENT": str(os.getpid())}
        pid = os.posix_spawn(self.command[0], self.command, environment, setsigmask=NOT_FOR_WORKERS)
        self.started[pid] = time.monotonic()
        return pid

    def ended(self) -> list[tuple[int, int, float]]:
        """(pid, status, age in seconds) of those that have ended since the last call; a status below 0 is a signal's."""
        processes = []
        for pid in list(self.started):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                processes.append((pid, os.waitstatus_to_exitcode(status), time.monotonic() - self.started.pop(pid)))
        return processes

    def replace(self) -> bool:
        """Start another for each that has ended; False where that would not help."""
        for pid, status, age in self.ended():
            if age < YOUNG_SECONDS and (status >= 0 or pid in self.replacements):
                print(f"A web worker ended as it started, with status {status}.", file=sys.stderr)
                return False
            print(f"A web worker ended by itself, with status {status}; another takes its place.", file=sys.stderr)
            self.replacements.discard(pid)
            self.replacements.add(self.start())
        return True

    def end(self) -> None:
        """Ask all to end, and kill those that have not after END_SECONDS."""
        for pid in self.started:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while self.ended() or self.started:
            if self.started and signal.sigtimedwait({signal.SIGCHLD}, max(deadline - time.monotonic(), 0)) is None:
                break
        for pid in self.started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main(count: int, command: list[str]) -> int:
    """The status to end with: 0 when it was asked to, 1 where workers do not live."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    workers = Workers(command)
    for _ in range(count):
        workers.start()
    living = True
    while living and signal.sigwait(HEARD) == signal.SIGCHLD:
        living = workers.replace()
    workers.end()
    return 0 if living else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
