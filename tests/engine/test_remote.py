"""A training on a cluster of machines gives the bytes that it gives here, also where its machine dies."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.synthetic import AGENTS, examples
from tests.engine.test_train import quick
from training_app.engine.progress import Progress
from training_app.engine.remote import ClusterError, training
from training_app.engine.train import TrainError, train

pytestmark = [pytest.mark.computes_long, pytest.mark.at_length]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without cores and one machine of one core; its processes read the code of this checkout."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        made.one = made.add_node(num_cpus=1)
        yield made
        ray.shutdown()
        made.shutdown()


def trained(cluster: Any = None, rows: Any = None, **changes: Any) -> bytes:
    """The artifact of a quick training, here or on the cluster."""
    address = cluster.address if cluster else ""
    words = (quick(**changes), AGENTS, examples() if rows is None else rows)
    *_others, last = training(train, words, {"checkpoint": None}, cluster=address)
    assert last.result is not None
    return last.result.artifact


def test_a_cluster_gives_the_same_bytes(cluster: Any) -> None:
    assert trained(cluster, seed=1) == trained(seed=1)


def whoever(checkpoint: bytes | None) -> Iterator[Progress]:
    """A training that tells which process it is."""
    yield Progress("fit", os.getpid(), 0, checkpoint=checkpoint)


def test_the_process_of_one_training_is_that_of_the_next(cluster: Any) -> None:
    asked = [list(training(whoever, (), {"checkpoint": None}, cluster=cluster.address)) for _ in range(3)]
    assert len({progress.step for steps in asked for progress in steps} - {os.getpid()}) == 1


def test_what_the_training_refuses_is_raised_here(cluster: Any) -> None:
    with pytest.raises(TrainError):
        trained(cluster, rows=[])


def test_a_training_whose_machine_dies_goes_on_on_another_to_the_same_bytes(cluster: Any) -> None:
    steps = training(
        train, (quick(total_steps=2000), AGENTS, examples()), {"checkpoint": None}, cluster=cluster.address
    )
    for progress in steps:
        if progress.checkpoint is not None:
            break
    other = cluster.add_node(num_cpus=1)
    cluster.remove_node(cluster.one, allow_graceful=False)
    cluster.one = other
    *_others, last = steps
    assert last.result is not None
    assert last.result.artifact == trained(total_steps=2000)


def test_a_cluster_by_the_client_is_refused_with_what_to_do() -> None:
    pytest.importorskip("ray").shutdown()
    with pytest.raises(ClusterError, match="has to join the cluster"):
        list(training(train, (quick(), AGENTS, examples()), {"checkpoint": None}, cluster="ray://head:10001"))


def test_where_no_cluster_is_the_error_says_so() -> None:
    pytest.importorskip("ray").shutdown()
    with pytest.raises(ClusterError, match=r"There is no Ray cluster at 127\.0\.0\.1:1"):
        list(training(train, (quick(), AGENTS, examples()), {"checkpoint": None}, cluster="127.0.0.1:1"))
