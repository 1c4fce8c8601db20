"""One of several processes that label conversations at once: `python -m tests.datasets_app.talking FIRST COUNT`.

Labels as the people `talker FIRST` to `talker FIRST + COUNT - 1`, in turns, until there is nothing left for any of them. Prints by
person the external ids of what they labeled, in order, as JSON.
"""

import json
import os
import sys

import django


def main(first: int, count: int) -> dict[str, list[str]]:
    from django.contrib.auth.models import User

    from agents_app.models import Pool
    from datasets_app.labeling import one_query, queue
    from datasets_app.labeling.one_query import Choice

    pool = Pool.objects.get()
    asked = frozenset(pool.agents.active().values_list("number", flat=True))
    done: dict[str, list[str]] = {f"talker {n}": [] for n in range(first, first + count)}
    people = {name: User.objects.get(username=name) for name in done}
    left = set(done)
    while left:
        for name in sorted(left):
            leases = queue.take(pool, people[name])
            if not leases:
                left.discard(name)
                continue
            (lease,) = leases
            key = f"{name} {lease.item.query_id}"
            lease.item.pool = pool
            one_query.submit(lease, Choice(frozenset({1}), False, False, asked), key=key, base=0)
            done[name].append(lease.item.query.external_id)
    return done


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
