"""`python -m routerweb.server` runs the web server, Granian, until Ctrl-C or SIGTERM.

It took fewer microseconds of processor time a request than gunicorn in `benchmarks/http`, which measures both. This process becomes
`supervisor`, which keeps WEB_WORKERS processes of `routerweb.worker` alive and is otherwise as good as nothing; Granian's own parent
process would hold all that it imports beside what each worker holds.
"""

import os
import sys

from routerweb import listening, supervisor

if __name__ == "__main__":
    # What Python was started with, -W for one, its workers are started with.
    worker = [sys.executable, *sys.orig_argv[1:-1], "routerweb.worker"]
    apart = [sys.executable, "-I", "-S", str(supervisor.__file__), str(listening.WEB_WORKERS)]
    os.execv(sys.executable, [*apart, *worker])  # noqa: S606 - our own program
