"""List a pool's models."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from datasets_app.management.console import pool_of
from training_app.versions import headlines, registry, standings, verdict


class Command(BaseCommand):
    help = "List a pool's models, newest first. Example: python manage.py list_models --pool support"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        models = verdict.for_list(headlines.with_headlines(list(registry.models(pool))))
        if not models:
            self.stdout.write(f"{pool.slug} has no models yet; train --pool {pool.slug} makes one.")
            return
        wide = max(len(model.name) for model in models)
        self.stdout.write(f"{'model':<{wide}}  {'state':<9}  {'exactly right of 100':<33}  checked  made")
        for model in models:
            stored = getattr(model, "verdict", None)
            few = getattr(model, "too_few", "")
            shown = stored.short() if stored else few or "–"
            checked = str(stored.queries if stored else model.shown.checked) if stored or few else "–"  # type: ignore[attr-defined]
            shown = f"{shown:<33}  {checked:>7}"
            if listed := getattr(model, "listed", []):
                shown = ", ".join(f"{name} {mean:.3f}" for name, mean in listed)
            created = timezone.localtime(model.created_at).strftime("%Y-%m-%d %H:%M")
            source = f"run {model.run_id}" if model.run_id else "import"
            beside = f"  {stored.conclusion()}" if stored and stored.beside else ""
            self.stdout.write(f"{model.name:<{wide}}  {model.state:<9}  {shown}  {created}  {source}{beside}")
        if compared := verdict.how_compared(models, standings.of(pool)):
            self.stdout.write(compared)
