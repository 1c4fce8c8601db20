"""`python -m benchmarks.scale.archive [DAYS]` measures the decision archive on the PostgreSQL of DATABASE_URL, in DECISION_ARCHIVE.

`fill` filled the database. All but the newest day goes to the archive, the oldest first, at most DAYS of them (10); then come one
decision by its id, a word that no text has, over all archived days, the erasing of one person who stands in one archived row, and of
another, who stands in one row of the database, from both.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import django
import numpy as np

PERSON, NEWER = "ana.archived@example.com", "ana.newer@example.com"


def main(most: int) -> None:
    """Print the table."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    django.setup()
    from agents_app.audit import Actor
    from agents_app.models import Pool
    from agents_app.texts import personal_data
    from agents_app.texts.matching import Terms
    from agents_app.texts.personal_data import find
    from routerweb.erasing import Erasing
    from training_app.answering import decisions
    from training_app.decision_archive import erasing, reading
    from training_app.models import ArchivedDay, Decision

    oldest = Decision.objects.order_by("at").first()
    assert oldest is not None, "fill the database first"
    Decision.objects.filter(pk=oldest.pk).update(text=f"{oldest.text} {PERSON}")
    days = (datetime.now(UTC).date() - oldest.at.astimezone(UTC).date()).days
    archived = [_seconds(partial(decisions.prune, left)) for left in range(days - 1, max(days - 1 - most, 0), -1)]
    rows = sum(ArchivedDay.objects.kept().values_list("rows", flat=True))
    size = sum(ArchivedDay.objects.kept().values_list("bytes", flat=True))
    pool = Pool.objects.get(pk=oldest.pool_id)
    one = [_seconds(lambda: reading.one(oldest.pk)) for _n in range(5)]
    terms, rule = Terms([PERSON]), erasing.rules()[0]
    Decision.objects.filter(pk=Decision.objects.order_by("-at")[0].pk).update(text=f"write to {NEWER}")

    def search() -> None:
        after = ""
        while after := reading.part(pool, reading.Search(words="nowhere"), after, 50).next:
            pass

    def erase() -> None:
        assert rule.holding is not None
        keys = list(rule.holding(terms))
        assert len(keys) == 1, keys
        rule.erase(keys, Erasing(terms, Actor("benchmark")))
        assert not list(rule.holding(terms))

    print(f"{rows:,} decisions in {len(archived)} days, {size / rows:.0f} bytes each\n\n| | s |\n| --- | --- |")
    print(f"| archive one day of {rows // len(archived):,} and delete it, median | {np.median(archived):.2f} |")
    print(f"| one by its id, median | {np.median(one):.3f} |")
    print(f"| a word over all archived days | {_seconds(search):.2f} |")
    print(f"| erase one person from the archive: find, write anew, find again | {_seconds(erase):.2f} |")
    newer, actor = Terms([NEWER]), Actor("benchmark")
    print(f"| find a person of one decision in the whole database and archive | {_seconds(partial(find, newer)):.2f} |")
    print(f"| erase them | {_seconds(partial(personal_data.erase, newer, actor)):.2f} |")
    assert not find(newer)


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
