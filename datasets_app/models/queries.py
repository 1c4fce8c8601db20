"""Datasets, queries, and which split a group of them belongs to."""

import hashlib

from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.engine.data import conversations
from training_app.engine.data.examples import conversation_key, keys_of, split_key


def text_hash(text: str) -> str:
    """What makes a query unique within a dataset: SHA-256 of its normalised text, or of all its turns; 64 hexadecimal digits."""
    return hashlib.sha256(keys_of(text)[0].encode()).hexdigest()


def group_hash(text: str) -> str:
    """What puts two queries into the same split: SHA-256 of the text without case, punctuation and space; of a conversation, of the
    text that opens it."""
    return hashlib.sha256(split_key(text).encode()).hexdigest()


def hashes_of(text: str, conversation: str = "") -> tuple[str, str]:
    """(`text_hash`, `group_hash`) of a query; the turns of the `conversation` of that id are one group."""
    normal, group = keys_of(text)
    group = conversation_key(conversation) if conversation else group
    return hashlib.sha256(normal.encode()).hexdigest(), hashlib.sha256(group.encode()).hexdigest()


class Split(models.TextChoices):
    TRAIN = "train", _("Train")
    VAL = "val", _("Validation")
    TEST = "test", _("Test")


class Dataset(models.Model):
    """A named collection of queries within a pool."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="datasets")
    name = models.CharField(_("name"), max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(shared=[name])

    class Meta:
        ordering = ("pool", "name")
        verbose_name = _("dataset")
        verbose_name_plural = _("datasets")
        constraints = (models.UniqueConstraint("pool", Lower("name"), name="dataset_name_unique_in_pool"),)

    def __str__(self) -> str:
        return f"{self.pool.name} · {self.name}"


class SplitGroup(models.Model):
    """All queries of a pool that read the same but for case, punctuation and space. A split, once given, stays for ever."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="split_groups")
    key = models.CharField(max_length=64)
    split = models.CharField(max_length=5, choices=Split.choices, blank=True, default="")
    holds = Holds(neither=[key])

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("pool", "key"), name="split_group_unique_in_pool"),
            check("split_known", split__in=("", "train", "val", "test")),
        )
        indexes = (models.Index(fields=("pool", "split")),)

    def __str__(self) -> str:
        return f"{self.key[:12]} {self.split}"


class QueryQuerySet(models.QuerySet["Query"]):
    """Filters of the queries."""

    def alive(self) -> "QueryQuerySet":
        """Those that nobody has deleted."""
        return self.filter(deleted_at__isnull=True)

    def of(self, pool: Pool | int) -> "QueryQuerySet":
        """The pool's, of all its datasets, that nobody has deleted."""
        return self.alive().filter(dataset__pool=pool)


#: The `origin` of queries that came back from live decisions.
UNSURE, FAILED = "unsure decision", "reported failure"
ORIGINS = {UNSURE: _("the router was unsure of it"), FAILED: _("an application reported a failure")}


class Query(models.Model):
    """One text to route, or the last user turn of a conversation in it: `messages` are what was said before, oldest first."""

    class State(models.TextChoices):
        UNLABELED = "unlabeled", _("Unlabeled")
        DRAFT = "draft", _("Draft")
        LABELED = "labeled", _("Labeled")
        DISAGREEMENT = "disagreement", _("Disagreement")
        GOLD = "gold", _("Gold")

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="queries")
    external_id = models.CharField(_("id in its source"), max_length=200, blank=True)
    text = models.TextField(_("text"))
    messages = models.JSONField(
        _("messages before"), null=True, blank=True, help_text=_("What was said before in its conversation.")
    )
    conversation = models.CharField(_("conversation"), max_length=200, blank=True, default="")
    turn = models.PositiveSmallIntegerField(
        null=True,
        editable=False,
        help_text=_("How many messages were said before; empty for a text of no conversation."),
    )
    text_hash = models.CharField(max_length=64, editable=False)
    group = models.ForeignKey(SplitGroup, on_delete=models.PROTECT, related_name="queries")
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.UNLABELED, db_index=True)
    origin = models.CharField(_("origin"), max_length=60, blank=True, help_text=_("Where the query came from."))
    extra = models.JSONField(
        _("other keys"),
        default=dict,
        blank=True,
        help_text=_("What else stood in its row of the file; exported again."),
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True, db_index=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    erased_at = models.DateTimeField(null=True, blank=True, editable=False)
    holds = Holds(
        query=[text, messages], remark=[external_id, conversation, extra, origin], person=[origin], neither=[text_hash]
    )

    objects = QueryQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        verbose_name = _("query")
        verbose_name_plural = _("queries")
        constraints = (
            models.UniqueConstraint(fields=("dataset", "text_hash"), name="query_text_unique_in_dataset"),
            check("query_state_known", state__in=("unlabeled", "draft", "labeled", "disagreement", "gold")),
        )
        indexes = (
            models.Index(fields=("dataset", "state", "id"), name="queries_by_state"),
            models.Index(fields=("dataset", "external_id")),
            models.Index(
                fields=("dataset", "conversation"), condition=models.Q(turn__isnull=False), name="query_by_conversation"
            ),
        )

    def __str__(self) -> str:
        return self.text if len(self.text) <= 80 else self.text[:79] + "…"

    @property
    def came_from(self) -> str:
        """Where the query came from, in words: what stands for a reason in `origin` says it in the reader's language."""
        return str(ORIGINS.get(self.origin, self.origin))

    @property
    def routed_text(self) -> str:
        """The query as it is routed: its text, which knows what was said before it where anything was."""
        return conversations.from_json(self.text, self.messages)

    @property
    def said_before(self) -> str:
        """What the user said in the turn before, "" for a first turn."""
        return conversations.said_before(self.messages)
