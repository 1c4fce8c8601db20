"""Several people at once: agents share no id or code, and somebody stays admin."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

from agents_app import pools
from agents_app.accounts import people


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


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_two_admins_who_remove_each_other_leave_one() -> None:
    for role in ("labeler", "reviewer", "ops", "admin"):
        Group.objects.get_or_create(name=role)
    pair = [User.objects.create_user(f"{name}@example.com", password="a long enough one") for name in ("ana", "ben")]
    for user in pair:
        user.groups.add(Group.objects.get(name="admin"))

    def remove(user: User) -> bool:
        try:
            people.deactivate(user, None)
            return True
        except people.PeopleError:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(remove, pair))
    assert sorted(done) == [False, True]
    assert User.objects.filter(is_active=True).count() == 1
