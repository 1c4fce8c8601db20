"""Files that a page sends: made whole before the first byte goes out, so that one which fails half-way is never taken for the file."""

import tempfile
from collections.abc import Iterable

from django.http import FileResponse

IN_MEMORY = 4 << 20  # bytes; a larger file lies on the disk until it has been sent


def download(pieces: Iterable[bytes | str], content_type: str, name: str) -> FileResponse:
    """The pieces as one file to be saved as `name`, with its length.

    Whatever making a piece raises is raised here: the answer is an error then, and no half of a file.
    """
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  (the response closes it)
    try:
        for piece in pieces:
            file.write(piece.encode() if isinstance(piece, str) else piece)
        size = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(size),
        "Cache-Control": "no-store",
    }
    return FileResponse(file, content_type=content_type, headers=headers)
