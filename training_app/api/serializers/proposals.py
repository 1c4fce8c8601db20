"""Proposals about a pool's agents."""

from typing import Any

from rest_framework import serializers

from training_app.api.errors import Refused
from training_app.api.fields import Moment, Text, Whole
from training_app.api.serializers.base import Body
from training_app.api.serializers.runs import PageParameters
from training_app.models import AgentProposal
from training_app.watching import proposals

#: Queries of a proposal that an answer quotes, and characters of a name and a description.
EXAMPLES, NAME, DESCRIPTION = 6, 200, 2_000
STATES = AgentProposal.State.values


class ProposalsParameters(PageParameters):
    """Which proposals."""

    state = serializers.CharField(
        required=False, default=AgentProposal.State.OPEN, help_text=f"One of {', '.join(STATES)}."
    )

    def validate_state(self, value: str) -> str:
        """A state of a proposal."""
        if value not in STATES:
            raise Refused(400, "invalid", f"state must be one of {', '.join(STATES)}.", field="state")
        return value


class ProposalSerializer(serializers.Serializer[AgentProposal]):
    """One change to a pool's agents, with what shows it."""

    id = serializers.IntegerField(source="pk")
    kind = serializers.ChoiceField(AgentProposal.Kind.choices)
    state = serializers.ChoiceField(AgentProposal.State.choices)
    name = serializers.CharField(help_text='A name for a missing agent, else "".')
    agents = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of the agents that it is about; [] for a missing one."
    )
    queries = serializers.IntegerField(source="size", help_text="How many queries show it.")
    share = serializers.SerializerMethodField(
        help_text="Of the traffic for a missing agent, of the agents' queries for others; from 0 to 1."
    )
    went = serializers.SerializerMethodField(help_text="How often each agent, by id, answered these queries.")
    words = serializers.SerializerMethodField(help_text="Words that tell a missing agent's queries from the others.")
    examples = serializers.SerializerMethodField(help_text=f"Up to {EXAMPLES} of the queries, the most typical first.")
    created_at = Moment()

    def get_share(self, proposal: AgentProposal) -> float:
        """As a share."""
        return float(proposal.figures.get("share", 0.0))

    def get_went(self, proposal: AgentProposal) -> dict[str, int]:
        """Counts by an agent's id."""
        return dict(proposal.figures.get("went") or {})

    def get_words(self, proposal: AgentProposal) -> list[str]:
        """Only of a missing agent."""
        return proposals.words(proposal) if proposal.kind == AgentProposal.Kind.MISSING else []

    def get_examples(self, proposal: AgentProposal) -> list[str]:
        """As far as their decisions are still kept."""
        return [str(text) for text in proposals.example_queries(proposal, EXAMPLES)]


class ProposalsSerializer(serializers.Serializer[Any]):
    """Proposals in the order in which they were made."""

    pool = serializers.CharField()
    proposals = ProposalSerializer(many=True)


class LookSerializer(serializers.Serializer[Any]):
    """A look that a worker takes."""

    pool = serializers.CharField()
    job = serializers.IntegerField(source="pk", help_text="The id of the background job.")


class AcceptProposal(Body):
    """The agent that is added, or the one whose queries these are."""

    name = Text(NAME, required=False, default="", help_text="Its name; the proposal's where none is given.")
    description = Text(DESCRIPTION, required=False, default="", help_text="What it does.")
    into = Whole(
        0, 2**31 - 1, "be the id of an active agent", required=False, allow_null=True, default=None,
        help_text="The id of an active agent whose queries these are: then none is added.",
    )  # fmt: skip


class MergeProposal(Body):
    """Which of the two stays."""

    into = Whole(0, 2**31 - 1, "be the id of one of the two agents", help_text="The id of the agent that stays.")
