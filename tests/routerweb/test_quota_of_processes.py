"""A key's month over the real server's processes: used to the last query, hardly beyond, by both of its secrets, and told."""

import json
import os
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.routerweb.test_server import Server, prepared, python  # noqa: F401

pytestmark = [pytest.mark.process, pytest.mark.any_database]
QUOTA = 400
SET = f"""
import django
django.setup()
from agents_app import keys
from agents_app.models import ApiKey
key = ApiKey.objects.get()
keys.set_quota(key, None, queries={QUOTA}, characters=None)
print(keys.rotate(key, None, grace="7d"))
"""
TOLD = "import django; django.setup(); from agents_app.models import KeyMonth; print(KeyMonth.objects.get().queries)"


def asked(server: Server, secret: str) -> tuple[int, str]:
    """What a route is answered with: its status and its error's code; over a connection of its own, so that any process answers."""
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.address}/api/route/", b'{"query": "billing"}', headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]["code"]


@pytest.mark.at_length
def test_two_processes_keep_one_quota_for_both_secrets(tmp_path: Path, prepared: tuple[Path, str]) -> None:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path / "installation"))
    secrets = (prepared[1], python(folder, "-c", SET))
    server = Server(folder, prepared[1], WEB_WORKERS="2")
    seen: Counter[tuple[int, str]] = Counter()
    try:
        with ThreadPoolExecutor(4) as threads:
            while seen[429, "quota_exhausted"] < 20 and sum(seen.values()) < 20 * QUOTA:
                seen.update(threads.map(lambda n: asked(server, secrets[n % 2]), range(40)))
                time.sleep(0.05)
        assert set(seen) <= {(200, ""), (429, "quota_exhausted"), (429, "too_many_requests")}
        # Before its first share each process may take one request, or 2 % of what was left.
        assert QUOTA <= seen[200, ""] <= QUOTA * 1.04 + 2, seen
        time.sleep(1.5)  # two settlements
        assert int(python(folder, "-c", TOLD)) == seen[200, ""]
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
