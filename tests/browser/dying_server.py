"""A web server that kills itself with SIGKILL in the middle of a submit: `python -m tests.browser.dying_server PORT FOLDER`.

Where FOLDER holds a file named after one of MOMENTS, the next submit that gets there removes it, and the process is gone at once, as
if by `kill -9`: no answer, no clean-up, the transaction as it is.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import django
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

#: Before anything is written, within the transaction, and after it, with the answer not yet sent.
MOMENTS = ("before", "within", "after")


def main(port: int, folder: Path) -> None:
    django.setup()
    from datasets_app.labeling import one_query
    from datasets_app.labels import disagreement

    def die_at(moment: str) -> None:
        wanted = folder / moment
        if wanted.exists():
            wanted.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    submit, measure = one_query.submit, disagreement.measure

    def dying_submit(*args: Any, **named: Any) -> Any:
        die_at("before")
        found = submit(*args, **named)
        die_at("after")
        return found

    def dying_measure(*args: Any, **named: Any) -> None:
        measure(*args, **named)
        die_at("within")

    one_query.submit, disagreement.measure = dying_submit, dying_measure
    server = ThreadedWSGIServer(("127.0.0.1", port), WSGIRequestHandler, allow_reuse_address=True)
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
