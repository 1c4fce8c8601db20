"""Pools and their agents, who runs them, API keys, the version stamp and the audit trail, by subject."""

from agents_app.models.access import ApiKey, AuditEntry, KeyMonth, PoolRole
from agents_app.models.backends import Backend, BackendSettings, Provider
from agents_app.models.pools import Agent, Executor, HealthCheck, Pool, Stamp
from agents_app.models.privacy import Privacy
from agents_app.models.scim import ScimGroup, ScimPerson, ScimToken
from agents_app.models.sources import AgentSource

__all__ = (
    "Agent",
    "AgentSource",
    "ApiKey",
    "AuditEntry",
    "Backend",
    "BackendSettings",
    "Executor",
    "HealthCheck",
    "KeyMonth",
    "Pool",
    "PoolRole",
    "Privacy",
    "Provider",
    "ScimGroup",
    "ScimPerson",
    "ScimToken",
    "Stamp",
)
