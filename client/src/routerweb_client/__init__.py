"""Asks a Routerweb server which agents a query needs: `Client`, `AsyncClient`."""

from routerweb_client.answers import Agent, Answer, Proposal, Refused, RouterwebError, Unreachable
from routerweb_client.clients import AsyncClient, Client

__all__ = ("Agent", "Answer", "AsyncClient", "Client", "Proposal", "Refused", "RouterwebError", "Unreachable")
