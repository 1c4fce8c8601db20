"""What takes seconds to make, follows from the code alone and is only read: made once for all test processes, and kept in
pytest's cache until the code is another."""

import fcntl
import hashlib
import inspect
import os
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".pytest_cache" / "made"
ALL = (
    "agents_app/**/*.py",
    "datasets_app/**/*.py",
    "routerweb/**/*.py",
    "training_app/**/*.py",
    "orchestration_app/**/*.py",
)
ENGINE = ("training_app/engine/**/*.py", "orchestration_app/engine/**/*.py")
#: What the tables, and the rows in them after `migrate`, follow from. The tests' own databases are migrated further all the same.
TABLES = (
    "*_app/migrations/*.py", "*_app/models/*.py", "*_app/apps.py", "*_app/schedules.py", "*_app/background.py", "agents_app/access.py",
    "agents_app/accounts/roles.py",
)  # fmt: skip


def made_once(name: str, make: Callable[[Path], object], of: tuple[str, ...]) -> Path:
    """A folder with what `make` puts into an empty one, for as long as the files `of` that are as they are; other processes wait."""
    code = hashlib.sha256(os.environ.get("ORCHESTRATION", "1").encode())  # which applications are installed
    for path in [
        ROOT / "requirements.txt",
        Path(inspect.getfile(make)),
        *(p for one in of for p in sorted(ROOT.glob(one))),
    ]:
        code.update(path.read_bytes())
    place = KEPT / name
    place.mkdir(parents=True, exist_ok=True)
    folder = place / code.hexdigest()[:16]
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for old in place.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            part = place / "part"
            part.mkdir()
            make(part)
            part.rename(folder)
    return folder
