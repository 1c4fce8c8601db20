"""`manage.py run_cluster`: one job cluster in the foreground, as `manage.py up` starts it."""

import os
import signal
import sys
from typing import Any

from django.core.management.base import BaseCommand
from django_q.brokers import get_broker
from django_q.conf import Conf

from routerweb import lifeline


class Command(BaseCommand):
    help = (
        "Run one job cluster: the training cluster where Q_CLUSTER_NAME=train, else the one for all other jobs. It ends with status "
        "3 where it has to be restarted, which `manage.py up` does. Example: python manage.py run_cluster"
    )

    def handle(self, *args: Any, **options: Any) -> None:
        # When the process that started it is gone it ends in order, and its own children with it.
        lifeline.end_with_starter(signal.SIGTERM)
        from agents_app.clusters import signs

        signs.need_slot()
        from agents_app.clusters.cluster import Cluster

        status = Cluster(get_broker(Conf.CLUSTER_NAME)).run()
        sys.stdout.flush()
        sys.stderr.flush()
        # Past the finalizers of queues that dead processes may have left locked.
        os._exit(status)
