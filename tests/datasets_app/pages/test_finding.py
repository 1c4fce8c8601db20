"""The command search finds a labeler's own labels, and queries for those who may browse; it says when it finds nothing."""

from datasets_app.labels import labels
from tests.clients import signed_in


def found(user, term: str) -> str:
    client = signed_in(user)
    return client.get("/admin/search/", {"s": term, "extended": "1"}, headers={"HX-Request": "true"}).content.decode()


def test_a_labeler_finds_their_own_labels_and_no_others(person, pool, queries):
    ana, ben = person("ana", "labeler"), person("ben", "labeler")
    labels.record(labels.NewLabel(queries[0].pk, source="human", author=ana, required=[0], asked=range(4)))
    word = queries[0].text.split()[0].lower()
    assert f"/p/{pool.slug}/label/{queries[0].pk}/" in found(ana, word)
    assert "/label/" not in found(ben, word)
    assert f"/p/{pool.slug}/label/#guidelines" in found(ben, "guidel")
    assert "Nothing is called “zzzz”" in found(ben, "zzzz")


def test_a_reviewer_finds_queries_but_no_erased_one(person, pool, queries):
    rita = person("rita", "reviewer")
    word = queries[1].text.lower()
    assert f"/p/{pool.slug}/queries/{queries[1].pk}/" in found(rita, word)
    assert "/queries/" not in found(person("cora", "labeler"), word).replace("/queries/?", "")


def test_two_signs_are_enough_where_they_are_a_word(person, pool, add_query):
    rita, query = person("rita", "reviewer"), add_query("先月分を返品したい")
    assert f"/p/{pool.slug}/queries/{query.pk}/" in found(rita, "返品")
    assert f"/queries/{add_query('반품 신청').pk}/" in found(rita, "반품")
    latin = add_query("xy of it")
    assert f"/queries/{latin.pk}/" not in found(rita, "xy")
