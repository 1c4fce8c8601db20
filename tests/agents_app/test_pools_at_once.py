"""Several people who add agents at once get different ids and codes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from agents_app import pools


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_agents_added_at_once_share_nothing() -> None:
    pool = pools.create_pool("Support")

    def add(n: int) -> tuple[int, str]:
        try:
            agent = pools.add_agent(pool, f"Billing {n}")
            return agent.number, agent.code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(add, range(12)))
    assert sorted(number for number, _code in made) == list(range(12))
    assert len({code for _number, code in made}) == 12
