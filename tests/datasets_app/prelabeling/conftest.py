"""An LLM server of ours that misbehaves as told, four queries, and jobs that ask it about them."""

from collections.abc import Callable

import pytest

from datasets_app.models import Label, PrelabelJob, Query
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import run as prelabel_run
from tests.llm_server import Server


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture
def texts(add_query: Callable[..., Query]) -> list[Query]:
    return [
        add_query(f"number {n}: {name} please") for n, name in enumerate(("Billing", "Account", "nobody", "shipping"))
    ]


@pytest.fixture
def make(pool, server):
    def job(**options) -> PrelabelJob:
        return prelabel.create(pool, prelabel.unlabeled(pool), base_url=server.url, model="m", **options)

    return job


def done(job: PrelabelJob, **options) -> PrelabelJob:
    finished = prelabel_run.run(job.pk, api_key="secret", **options)
    assert finished is not None
    return finished


def found() -> dict[int, list[int]]:
    return {label.query_id: label.required for label in Label.objects.current().filter(source="llm")}
