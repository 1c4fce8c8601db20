"""`manage.py demo`: the demo pool, a trained and active router, a login and a key; what is there already stays."""

import tempfile
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from agents_app.models import Pool
from datasets_app.demo.generate import write_demo
from training_app.installation import make_demo
from training_app.versions import registry

SLUG, NAME = "support", "Customer support (demo)"


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
        make_demo(pool)
