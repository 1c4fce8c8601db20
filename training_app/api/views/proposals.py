"""Proposals about a pool's agents: listed, looked for, accepted, declined, merged."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.background_work import work
from agents_app.pools import PoolError
from training_app.api import examples
from training_app.api.errors import Refused, refused_as
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import proposals as shapes
from training_app.api.serializers.base import OfPool
from training_app.api.views.runs import ListView, OpsView
from training_app.models import AgentProposal
from training_app.watching import proposals

OF = "Proposals"
ACCEPTED = examples.PROPOSAL | {"state": "accepted"}


class ProposalsView(ListView):
    """A pool's proposals."""

    @operation(
        "proposals", "What a pool's traffic says about its agents", of=OF, query_string=shapes.ProposalsParameters,
        answers={200: (shapes.ProposalsSerializer, "The proposals", {"pool": "support", "proposals": [examples.PROPOSAL]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The proposals of a pool, the open ones unless a state is named. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(shapes.ProposalsParameters)
        pool = self.pool(self.chosen["pool"])
        rows = self.part(AgentProposal.objects.filter(pool=pool, state=self.chosen["state"]))
        return self.listed(shapes.ProposalsSerializer({"pool": pool.slug, "proposals": rows}).data)

    @operation(
        "lookForProposals", "Look for proposals", of=OF, keyed=True, body=OfPool, example={"pool": "support"},
        answers={202: (shapes.LookSerializer, "A worker looks", {"pool": "support", "job": 31})},
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Look at the traffic of four weeks. A worker does it, which takes a minute or two; it replaces the open proposals."""
        pool = self.pool(self.body(OfPool)["pool"])
        job = work.submit(proposals.LOOK, pool=pool.pk)
        return Response(shapes.LookSerializer({"pool": pool.slug, "pk": job.pk}).data, status=202)


class OfProposal(OpsView):
    """One proposal."""

    def proposal(self, proposal_id: int) -> AgentProposal:
        """The proposal of that id. Raises Refused."""
        return self.one_of(AgentProposal.objects.select_related("pool"), proposal_id, "proposal")

    def decided(self, proposal: AgentProposal) -> Response:
        """The proposal as it is stored."""
        proposal.refresh_from_db()
        return Response(shapes.ProposalSerializer(proposal).data)


class AcceptProposalView(OfProposal):
    """Adding a missing agent."""

    @operation(
        "acceptProposal", "Add a missing agent", of=OF, keyed=True, parts=("proposal_id",), any_pool=False,
        body=shapes.AcceptProposal, example={"name": "Visas", "description": "Passports, visas and permits"},
        answers={200: (shapes.ProposalSerializer, "The proposal", ACCEPTED)}, errors=("not_found", "cannot_decide"),
    )  # fmt: skip
    @once
    def post(self, request: Request, proposal_id: int) -> Response:
        """Add the missing agent, or take an active one for it, and send its queries to be labeled."""
        proposal = self.proposal(proposal_id)
        body = self.body(shapes.AcceptProposal)
        try:
            proposals.accept(
                proposal, body["name"] or proposal.name, body["description"], into=body["into"], actor=self.access.actor
            )
        except PoolError as error:
            raise Refused(400, "invalid", f"name: {error}", field="name") from None
        except proposals.ProposalError as error:
            raise Refused(409, "cannot_decide", str(error)) from None
        return self.decided(proposal)


class DeclineProposalView(OfProposal):
    """Closing a proposal."""

    @operation(
        "declineProposal", "Decline a proposal", of=OF, keyed=True, parts=("proposal_id",), any_pool=False,
        answers={200: (shapes.ProposalSerializer, "The proposal", examples.PROPOSAL | {"state": "declined"})},
        errors=("not_found", "cannot_decide"),
    )  # fmt: skip
    @once
    def post(self, request: Request, proposal_id: int) -> Response:
        """Close it: it does not come back for the same queries. No body is needed."""
        proposal = self.proposal(proposal_id)
        with refused_as(409, "cannot_decide", proposals.ProposalError):
            proposals.decline(proposal, actor=self.access.actor)
        return self.decided(proposal)


class MergeProposalView(OfProposal):
    """Making two agents one."""

    @operation(
        "mergeProposal", "Merge two overlapping agents", of=OF, keyed=True, parts=("proposal_id",), any_pool=False,
        body=shapes.MergeProposal, example={"into": 0},
        answers={200: (shapes.ProposalSerializer, "The proposal", ACCEPTED | {"kind": "overlap", "agents": [0, 1]})},
        errors=("not_found", "cannot_decide"),
    )  # fmt: skip
    @once
    def post(self, request: Request, proposal_id: int) -> Response:
        """Merge the two agents of the proposal; labels of both count for the one that stays."""
        proposal = self.proposal(proposal_id)
        into = self.body(shapes.MergeProposal)["into"]
        if proposal.agents and into not in proposal.agents:
            raise Refused(400, "invalid", "into must be the id of one of the two agents.", field="into")
        with refused_as(409, "cannot_decide", proposals.ProposalError, PoolError):
            proposals.merge(proposal, into, actor=self.access.actor)
        return self.decided(proposal)
