"""One of several processes that work one pool at once: `python -m tests.datasets_app.together WORK NUMBER SECONDS`.

Prints `{"done": n, "deadlocks": n}` as JSON. WORK is submit, import or merge, in the first pool of the database of DATABASE_URL.
"""

import io
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from agents_app.models import Pool


def submit(pool: "Pool", number: int, chance: random.Random) -> None:
    """A labeler answers a query of their choice, anew where they have answered it before."""
    from django.contrib.auth.models import User

    from datasets_app.labeling import one_query, queue
    from datasets_app.labeling.one_query import Choice
    from datasets_app.models import Query

    person = User.objects.get(username=f"labeler {number}")
    query = chance.choice(Query.objects.filter(dataset__pool=pool).order_by("pk")[:200])
    asked = frozenset(pool.agents.active().values_list("number", flat=True))
    required = frozenset(chance.sample(sorted(asked), chance.randint(0, 2)))
    lease = queue.open_item(query, person, pool)
    lease.person, lease.item.pool = person, pool
    own = one_query.own_label(query, person)
    key = f"{number}-{chance.random()}"
    one_query.submit(lease, Choice(required, not required, False, asked), key=key, base=own.pk if own else 0)


def bring(pool: "Pool", number: int, chance: random.Random) -> None:
    """A file of ten rows, half of them known."""
    from datasets_app.files import imports

    rows = [{"text": f"query {chance.randrange(400)}", "required_agents": [chance.randrange(4)]} for _row in range(10)]
    content = "\n".join(json.dumps(row) for row in rows).encode()
    imports.read_file(pool.datasets.get(), io.BytesIO(content), "jsonl")


def merge(pool: "Pool", number: int, chance: random.Random) -> None:
    """Two agents become one, and two again. Each process has its own two."""
    from agents_app import pools

    first, second = pool.agents.filter(number__gte=4 + 2 * number).order_by("number")[:2]
    if first.merged_into_id is None:  # else a deadlock came between the two the last time
        pools.merge(first, second, None)
    pools.restore(first, actor=None)


WORK: dict[str, Callable[["Pool", int, random.Random], None]] = {"submit": submit, "import": bring, "merge": merge}


def main(work: str, number: int, seconds: float) -> dict[str, int]:
    from django.db import OperationalError

    from agents_app.models import Pool

    pool, chance = Pool.objects.get(), random.Random(f"{work} {number}")
    done = deadlocks = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            WORK[work](pool, number, chance)
            done += 1
        except OperationalError as error:
            if "deadlock" not in str(error):
                raise
            deadlocks += 1
    return {"done": done, "deadlocks": deadlocks}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
