"""Finding queries: a search line of words and `key:value` terms becomes one filter, the same for pages, bulk changes and export."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from agents_app.models import Agent, Pool
from datasets_app.figures import progress
from datasets_app.labeling import adjudication, queue
from datasets_app.models import Gold, GoldAgent, Label, Query, QueueItem
from datasets_app.queries import query_columns, text_search
from routerweb.pages import parameters

#: Terms about more than one column of a query; those about one are in `columns`.
RELATIONS = ("agent", "source", "by", "disagreement", "is")
KEYS = (*RELATIONS, *(column.name for column in query_columns.FOUND))


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a search: `key` is "" for plain text; `minus` turns it round."""

    key: str
    value: str
    minus: bool = False

    def __str__(self) -> str:
        value = f'"{self.value}"' if " " in self.value else self.value
        return ("-" if self.minus else "") + (f"{self.key}:{value}" if self.key else value)


@dataclass(frozen=True, slots=True)
class Search:
    """What a search line means in a pool. With a problem in it nothing is found: a typing error must never widen a bulk change."""

    text: str
    terms: tuple[Term, ...]
    queries: "QuerySet[Query]"
    problems: tuple[str, ...] = field(default=())

    def without(self, term: Term) -> str:
        """The search line with one term taken out."""
        return " ".join(str(other) for other in self.terms if other != term)

    def entries(self, pool: Pool) -> "QuerySet[GoldAgent] | None":
        """Where it asks for one agent and nothing else, that agent's gold labels, those of deleted queries too: an index has them
        in a row. None otherwise."""
        if self.problems or len(self.terms) != 1 or self.terms[0].minus or self.terms[0].key != "agent":
            return None
        value = self.terms[0].value
        return None if value.lower() == "none" else GoldAgent.objects.filter(agent=agent_of(pool, value))


def terms(text: str) -> list[Term]:
    """The terms of a search line; quotes hold words together, a minus in front turns a term round."""
    try:
        words = shlex.split(text.replace("'", "\\'"))
    except ValueError:  # a quote that is not closed yet
        words = text.replace('"', " ").split()
    result = []
    for word in words:
        key, colon, value = word.lstrip("-").partition(":")
        if colon and value and key.lower() in KEYS:
            result.append(Term(key.lower(), value, word.startswith("-")))
        elif word.strip("-"):
            minus = word.startswith("-") and len(word) > 1
            result.append(Term("", word[1:] if minus else word, minus))
    return result


def search(pool: Pool, text: str) -> Search:
    """The pool's queries that fit a search line: every term must hold. Deleted ones only with `is:deleted`."""
    parts = terms(text[:400])
    datasets = list(pool.datasets.values_list("pk", flat=True))
    queries = Query.objects.filter(dataset__in=datasets)
    if not any(term.key == "is" and term.value == "deleted" for term in parts):
        queries = queries.filter(deleted_at__isnull=True)
    problems = []
    for term in parts:
        try:
            condition = _condition(pool, term)
        except LookupError as problem:
            problems.append(f"{term}: {problem.args[0]}")
            continue
        queries = queries.exclude(condition) if term.minus else queries.filter(condition)
    return Search(text, tuple(parts), queries.none() if problems else queries, tuple(problems))


def _condition(pool: Pool, term: Term) -> Q | Exists:
    if not term.key:
        return text_search.holding(term.value) | Q(external_id=term.value)
    conditions: dict[str, Callable[[Pool, str], Q | Exists]] = {
        "agent": _agent,
        "source": _source,
        "by": _by,
        "disagreement": _disagreement,
        "is": _is,
    }
    if term.key in conditions:
        return conditions[term.key](pool, term.value)
    find = query_columns.BY_NAME[term.key].find
    assert find is not None
    return find(term.value)


def agent_of(pool: Pool, value: str) -> Agent:
    """The pool's agent of that id, code or name, or of a name that begins so. Raises LookupError."""
    agents = list(pool.agents.all())
    wanted = value.casefold()
    tests: tuple[Callable[[Agent], bool], ...] = (
        lambda agent: str(agent.number) == wanted,
        lambda agent: agent.code.casefold() == wanted,
        lambda agent: agent.name.casefold() == wanted,
        lambda agent: agent.name.casefold().startswith(wanted),
    )
    for fits in tests:
        fitting = [agent for agent in agents if fits(agent)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise LookupError(_("several agents are called so: %(names)s.") % {"names": ", ".join(map(str, fitting))})
    raise LookupError(_("no agent of this pool has that id, code or name."))


def _agent(pool: Pool, value: str) -> Exists | Q:
    if value.lower() == "none":
        return Q(state=Query.State.GOLD, pk__in=Gold.objects.filter(members__isnull=True).values("query"))
    return Q(gold__members__agent=agent_of(pool, value))


def _source(pool: Pool, value: str) -> Exists:
    return Exists(
        Label.objects.current().filter(query=OuterRef("pk"), source=query_columns.one_of(value, Label.Source.values))
    )


def _by(pool: Pool, value: str) -> Exists:
    person = User.objects.filter(username__iexact=value).first()
    if person is None:
        raise LookupError(_("nobody here has that name."))
    return Exists(Label.objects.current().filter(query=OuterRef("pk"), author=person, source=Label.Source.HUMAN))


def _disagreement(pool: Pool, value: str) -> Q:
    sources = {"llm": "llm_disagreement", "people": "disagreement"}
    words = value.lower().split(">")
    name = sources.get(words[0] or "people")
    least = parameters.decimal(words[1]) if len(words) == 2 else 0.0
    if name is None or least is None or len(words) > 2:
        raise LookupError(_("write disagreement:people, disagreement:llm or disagreement:people>0.5."))
    items = QueueItem.objects.filter(pool=pool, agent__isnull=True, **{f"{name}__gt": least})
    return Q(pk__in=items.values("query"))


def _is(pool: Pool, value: str) -> Q | Exists:
    """Each word means what the pages mean that count it: Home, Label, Review and Export."""
    word = query_columns.one_of(value, ("open", "labeled", "suggested", "gold", "unsure", "skipped", "deleted"))
    conditions: dict[str, Callable[[], Q | Exists]] = {
        # What has just come in and will be put into the queue counts as waiting, as on Home.
        "open": lambda: (
            Exists(progress.waiting(pool).filter(query=OuterRef("pk"), agent__isnull=True))
            | Q(pk__in=queue.not_filled(pool).order_by().values("pk"))
        ),
        "labeled": progress.is_labeled,
        "suggested": progress.is_suggested,
        "gold": lambda: Q(gold__isnull=False),
        "unsure": lambda: Q(pk__in=adjudication.doubts(pool).order_by().values("pk")),
        "skipped": lambda: Q(pk__in=adjudication.passed(pool).order_by().values("pk")),
        "deleted": lambda: Q(deleted_at__isnull=False),
    }
    return conditions[word]()
