"""Background work: queues, workers and when a job counts as dead."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from routerweb import env

# Two queues, so that an hour of training never blocks a label job. `timeout` stays below `retry`, or a long job would be
# delivered twice; whether a job runs at all is decided by its own claim, not by the queue.

TRAIN_TIMEOUT = env.integer("TRAIN_TIMEOUT", 6 * 3600, low=60)
HEARTBEAT_SECONDS = env.integer("HEARTBEAT_SECONDS", 5, low=1, high=60)
DEAD_AFTER_SECONDS = env.integer("DEAD_AFTER_SECONDS", 30, low=2)
# Runs compute on a Ray cluster where this names one; the workers then hand over, watch and store.
RAY_ADDRESS = env.text("RAY_ADDRESS", "")
RUN_RETRIES = env.integer("RUN_RETRIES", 2, low=0, high=100)
if DEAD_AFTER_SECONDS < 2 * HEARTBEAT_SECONDS:
    raise ImproperlyConfigured("DEAD_AFTER_SECONDS: must be at least twice HEARTBEAT_SECONDS.")

Q_CLUSTER: dict[str, Any] = {
    "name": "routerweb",
    "orm": "default",
    "cluster_name": "default",
    "broker_class": "agents_app.clusters.broker.Broker",
    "workers": env.integer("DEFAULT_WORKERS", 2, low=1),
    "timeout": 3600,
    "retry": 3660,
    "max_attempts": 1,
    "ack_failures": True,
    "bulk": 1,
    # What a cluster takes ahead of its work waits there, while another may be free: as little as can be.
    "queue_limit": 1,
    "poll": 0.5,
    "catch_up": False,
    "label": "Django Q",
    # Clusters tell of themselves twice a second; nobody reads it, so it stays out of the database.
    "cache": "process",
    "ALT_CLUSTERS": {
        "train": {
            "workers": env.integer("TRAIN_WORKERS", 1, low=1),
            "timeout": TRAIN_TIMEOUT,
            "retry": TRAIN_TIMEOUT + 60,
        },
    },
}
