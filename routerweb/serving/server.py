"""`python -m routerweb.serving.server` runs the web server until Ctrl-C or SIGTERM.

This process becomes `supervisor`, which keeps WEB_WORKERS processes of `worker.py` alive and imports nothing else: a parent
process that had imported the server would hold all of it beside what each worker holds.
"""

import os
import signal
import sys

from routerweb import lifeline, supervisor
from routerweb.serving import listening

if __name__ == "__main__":
    lifeline.end_with_starter(signal.SIGTERM)  # the supervisor inherits that
    # What Python was started with, -W for one, its workers are started with.
    worker = [sys.executable, *sys.orig_argv[1:-1], "routerweb.serving.worker"]
    apart = [sys.executable, "-I", "-S", str(supervisor.__file__), str(listening.WEB_WORKERS)]
    os.execv(sys.executable, [*apart, *worker])  # noqa: S606 - our own program
