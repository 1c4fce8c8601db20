"""`manage.py demo`: the demo pool, a trained and active router, a login and a key; what is there already stays."""

import tempfile
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from agents_app import executors
from agents_app.audit import Actor
from agents_app.models import Agent, Executor, Pool
from datasets_app.demo.generate import write_demo
from training_app.engine.orchestrating.support import DESK_SETTINGS, write_support
from training_app.installation import make_demo
from training_app.models import ORCHESTRATOR
from training_app.versions import registry

SLUG, NAME = "support", "Customer support (demo)"
DESK_SLUG, DESK_NAME = "desk", "Support desk, simulated agents (demo)"


class Command(BaseCommand):
    help = "Set up the demo pool: queries, a trained and active router, a login and an API key. Example: python manage.py demo"

    def handle(self, *args: Any, **options: Any) -> None:
        pool = Pool.objects.filter(slug=SLUG).first()
        if pool is None or registry.active(pool) is None:
            # Also where an earlier start was interrupted: loading again adds only what is missing.
            self.stdout.write("Loading the demo pool")
            with tempfile.TemporaryDirectory() as folder:
                write_demo(folder)
                call_command("load_pool", folder, slug=SLUG, name=NAME, stdout=self.stdout)
            pool = Pool.objects.get(slug=SLUG)
        if registry.active(pool) is None:
            self.stdout.write("Training the demo pool's router")
            call_command("train", pool=SLUG, promote=True, stdout=self.stdout)
        make_demo(pool, self._support_desk())

    def _support_desk(self) -> Pool:
        """The second pool: simulated agents that are really called, and a trained and active orchestrator."""
        pool = Pool.objects.filter(slug=DESK_SLUG).first()
        if pool is None:
            self.stdout.write("Loading the demo pool of orchestration")
            with tempfile.TemporaryDirectory() as folder:
                write_support(folder)
                call_command("load_pool", folder, slug=DESK_SLUG, name=DESK_NAME, stdout=self.stdout)
            pool = Pool.objects.get(slug=DESK_SLUG)
        for agent in pool.agents.filter(executor=None).exclude(state=Agent.State.RETIRED):
            script = {"do": "simulated", "pool": "support", "agent": agent.number}
            executors.save(agent, {"kind": Executor.Kind.SCRIPTED, "script": script}, actor=Actor("demo"))
        if registry.active(pool, ORCHESTRATOR) is None:
            self.stdout.write("Training its orchestrator")
            settings = [f"{name}={value}" for name, value in DESK_SETTINGS.items()]
            call_command("train", pool=DESK_SLUG, kind=ORCHESTRATOR, set=settings, promote=True, stdout=self.stdout)
        return pool
