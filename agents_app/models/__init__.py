"""Pools and their agents, who runs them, API keys, the version stamp and the audit trail, by subject."""

from agents_app.models.access import ApiKey, AuditEntry, KeyMonth, PoolRole
from agents_app.models.jobs import BackgroundJob, ClusterSign
from agents_app.models.llm import LlmConnection
from agents_app.models.pools import Agent, HealthCheck, Pool, Stamp
from agents_app.models.privacy import Privacy
from agents_app.models.scim import ScimGroup, ScimPerson, ScimToken
from agents_app.models.sources import AgentSource
