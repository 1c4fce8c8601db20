"""Agreement in a large pool is that of the queries that people labeled last, above all of those that several people did."""

from django.urls import reverse

from datasets_app.figures import agreement
from datasets_app.labeling import adjudication
from datasets_app.labels import labels
from datasets_app.models import QueueItem

ALL = [0, 1, 2, 3]


def test_the_newest_queries_are_compared_and_the_page_says_so(pool, queries, person, client, monkeypatch):
    ana, ben = person("ana"), person("ben")
    for place, query in enumerate(queries):
        labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=ALL))
        if place < 4:  # the first two disagree, the next two agree
            labels.record(
                labels.NewLabel(query.pk, source="human", author=ben, required=[2 if place < 2 else 1], asked=ALL)
            )
    every = agreement.report(pool)
    assert (every.exact, every.newest, every.coverage) == (0.5, None, {1: 2, 2: 4})
    monkeypatch.setattr(agreement, "SEVERAL", 2)
    monkeypatch.setattr(agreement, "ALONE", 1)
    newest = agreement.report(pool)
    assert (newest.exact, newest.newest, newest.coverage) == (1.0, 3, {1: 2, 2: 4})
    assert agreement.differing(pool, ana.pk, ben.pk, None) == [queries[2].pk, queries[3].pk]
    client.force_login(person("olga", "ops"))
    assert (
        "the 3 queries that people labeled last" in client.get(reverse("agreement", args=[pool.slug])).content.decode()
    )


def test_a_dispute_without_an_item_comes_after_those_with_one(pool, queries, person):
    for author, required in ((person("ana"), [1]), (person("ben"), [2])):
        for query in queries[:2]:
            labels.record(labels.NewLabel(query.pk, source="human", author=author, required=required, asked=ALL))
    QueueItem.objects.filter(query=queries[0]).delete()
    QueueItem.objects.update_or_create(query=queries[1], agent=None, defaults={"pool": pool, "disagreement": 0.5})
    assert list(adjudication.disputes(pool)) == [queries[1]]
    QueueItem.objects.all().delete()
    assert list(adjudication.disputes(pool)) == queries[:2]
