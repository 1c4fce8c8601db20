"""`mend_texts`: texts that no other database would take, from before they were checked, made storable."""

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand

from agents_app import audit, mending
from agents_app.audit import Actor


class Command(BaseCommand):
    help = (
        "Mend texts that cannot be exported or moved to PostgreSQL: a NUL or half of a surrogate pair becomes U+FFFD. Each change is "
        "told. `migrate` does this once by itself. Example: python manage.py mend_texts"
    )

    def handle(self, *args: Any, **options: Any) -> None:
        count = 0
        for mended in mending.mend(apps.get_models(include_auto_created=True)):
            self.stdout.write(str(mended))
            count += mended.done
        if count:
            audit.record("site.texts_mended", actor=Actor("mend_texts"), detail={"values": count})
        self.stdout.write(f"{count:,} values mended.")
