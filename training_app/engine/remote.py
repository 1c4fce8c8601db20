"""Where a training computes: in this process, or on a cluster of machines by Ray (https://docs.ray.io), to the same bytes.

A cluster runs the generator `train` in a task of one core and hands its progress over in parts. Where the task's machine dies, the
training goes on elsewhere from the last checkpoint that was handed over, which gives the bytes that an undisturbed one gives. The
processes of tasks stay, so the second training of a caller finds everything imported.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from training_app.engine.progress import Progress

log = logging.getLogger(__name__)

Train = Callable[..., Generator[Progress, None, None]]

#: Seconds of progress in one part, and between two looks at whether the caller wants it to end.
PART_SECONDS = 1.0


class ClusterError(Exception):
    """The cluster cannot be used; the message says why."""


def training(
    train: Train, args: Sequence[Any], kwargs: Mapping[str, Any], *, cluster: str = "", retries: int = 2
) -> Generator[Progress, None, None]:
    """The progress of `train(*args, **kwargs)`, here or on the `cluster` at this address. `kwargs` has its `checkpoint`. What `train`
    raises is raised here; ClusterError where the cluster is not there, or lost the training more than `retries` times."""
    if not cluster:
        yield from train(*args, **kwargs)
        return
    checkpoint = kwargs["checkpoint"]
    for _attempt in range(retries + 1):
        for progress in _on_cluster(cluster, train, args, {**kwargs, "checkpoint": checkpoint}):
            if progress is None:
                break
            checkpoint = progress.checkpoint or checkpoint
            yield progress
        else:
            return
    raise ClusterError(f"The machines that trained it were lost {retries + 1} times.")


def _on_cluster(
    address: str, train: Train, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Generator[Progress | None, None, None]:
    """The same in a task of the cluster; None, and nothing more, where its machine or process was lost."""
    ray = _connected(address)
    task = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_parts)
    parts, ended = task.remote(train, args, kwargs), False
    try:
        while not ended:
            while not ray.wait([parts], timeout=PART_SECONDS)[0]:
                pass  # Python handles a signal between two waits
            part = next(parts, None)
            ended = part is None
            yield from () if part is None else ray.get(part)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:
        log.warning("a training on the cluster was lost (%s)", type(error).__name__)
        yield None
    finally:
        if not ended:
            ray.cancel(parts, force=True)


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ClusterError("A cluster needs the package ray: pip install -r requirements-ray.txt.") from error
    if ray.is_initialized():
        return ray
    if address.startswith("ray://"):  # Ray's client streams no results
        raise ClusterError(
            f"{address}: this machine has to join the cluster: ray start --address=HEAD:6379 --num-cpus=0. "
            "Then RAY_ADDRESS=HEAD:6379 reaches it."
        )
    host, _colon, port = address.rpartition(":")
    main = threading.current_thread() is threading.main_thread()
    own = signal.getsignal(signal.SIGTERM) if main else None
    try:
        socket.create_connection((host, int(port)), timeout=10).close()  # Ray would knock for minutes
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterError(f"There is no Ray cluster at {address}: {error}") from error
    finally:
        if main:
            signal.signal(signal.SIGTERM, own)  # Ray puts one of its own there, and a worker is stopped by this one
    return ray


def _parts(train: Train, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Generator[list[Progress], None, None]:
    """What the cluster runs: the progress of about a second at a time."""
    part, until = [], time.monotonic() + PART_SECONDS
    for progress in train(*args, **kwargs):
        part.append(progress)
        if time.monotonic() >= until:
            yield part
            part, until = [], time.monotonic() + PART_SECONDS
    yield part
