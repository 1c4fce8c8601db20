"""The archive in a bucket, behind a real server of the S3 API that is not Amazon's."""

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents_app.audit import Actor
from agents_app.models import Pool
from agents_app.texts import personal_data
from agents_app.texts.matching import Terms
from tests import waiting
from tests.on_postgresql import free_port
from tests.training_app.decision_archive.conftest import Answered, texts
from training_app.answering import decisions
from training_app.decision_archive import reading, storage
from training_app.decision_archive.storage import ArchiveError
from training_app.models import ArchivedDay, Decision

pytestmark = [pytest.mark.django_db, pytest.mark.at_length]
#: Of an environment of its own, which `make s3` makes.
SERVER = Path(__file__).parents[3] / ".venv-s3" / "bin" / "moto_server"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server with a bucket "kept"."""
    if not SERVER.exists() and os.environ.get("REQUIRE_S3") != "1":
        pytest.skip("moto is not installed: `make s3` does it.")
    port = free_port()
    with subprocess.Popen([SERVER, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            waiting.until(lambda: _answers(f"{address}/moto-api/"), "the server", 60)
            urllib.request.urlopen(urllib.request.Request(f"{address}/kept", method="PUT")).close()
            yield address
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture(autouse=True)
def bucket(archive: Path, s3: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive is in the bucket."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    settings.DECISION_ARCHIVE = "s3://kept/decisions/"
    settings.AWS_ENDPOINT_URL, settings.AWS_REGION = s3, "us-east-1"


def stored() -> list[str]:
    from pyarrow import fs

    with storage.opened() as (system, root):
        return [one.base_name for one in system.get_file_info(fs.FileSelector(root, recursive=True)) if one.is_file]


def test_a_day_is_written_read_erased_and_deleted(answered: Answered, pool: Pool, settings: Any) -> None:
    key, other = answered("write to ana@example.com", 40), answered("parcel", 41)
    assert decisions.prune() == 2
    assert not Decision.objects.exists()
    assert len(stored()) == 3, "two days and the manifest"
    assert texts(reading.part(pool, reading.Search(), "", 10).rows) == ["write to ana@example.com", "parcel"]
    assert texts(list(reading.period(pool, reading.Search()))) == ["parcel", "write to ana@example.com"]
    before = set(stored())
    personal_data.erase(Terms(["ana@example.com"]), Actor("test"))
    assert len(before & set(stored())) == 2
    assert len(stored()) == 3
    erased, kept = reading.one(key), reading.one(other)
    assert erased is not None
    assert kept is not None
    assert (erased.decision.text, kept.decision.text) == ("", "parcel")
    settings.ARCHIVE_DAYS = 30
    decisions.prune()
    assert stored() == ["manifest.json"]
    assert not ArchivedDay.objects.exists()


def test_a_bucket_that_is_not_there_stops_retention(answered: Answered, settings: Any) -> None:
    settings.DECISION_ARCHIVE = "s3://nowhere/decisions"
    answered("one", 40)
    with pytest.raises(ArchiveError, match="nowhere"):
        decisions.prune()
    assert Decision.objects.count() == 1
