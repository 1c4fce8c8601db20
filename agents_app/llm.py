"""The LLM that this installation uses: what an admin saved on the page *LLM*, else what the settings say."""

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from django.conf import settings
from django.db import transaction
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents_app import audit, sealing
from agents_app.audit import Who, actor_of
from agents_app.models import LlmConnection, Stamp
from agents_app.outbound import guard
from training_app.engine import llm

#: Seconds that a call may take.
CALL_SECONDS = 60.0
#: Seconds that a test may take; a server of one's own may have to load its model first.
TEST_SECONDS = 45.0


class Preset(NamedTuple):
    """A well-known server: its name in the address of the page, its title, its address, and whether it runs in one's own network."""

    name: str
    title: str | Promise
    base_url: str
    own_network: bool = False


PRESETS = (
    Preset("openai", "OpenAI", "https://api.openai.com/v1"),
    Preset("anthropic", "Anthropic", "https://api.anthropic.com/v1"),
    Preset("google", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai"),
    Preset("mistral", "Mistral", "https://api.mistral.ai/v1"),
    Preset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1"),
    Preset("ollama", _("Ollama, on this machine"), "http://127.0.0.1:11434/v1", own_network=True),
    Preset("vllm", _("vLLM, on this machine"), "http://127.0.0.1:8001/v1", own_network=True),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the LLM is asked, for which model and with which key. `saved`: by an admin on the page, not in the settings."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    own_network: bool = False
    price_in: float = 0.0
    price_out: float = 0.0
    saved: bool = False

    @property
    def own_server(self) -> guard.Server | None:
        """The server of one's own network that calls of this connection may reach."""
        return server_of(self.base_url) if self.own_network else None

    @property
    def ready(self) -> bool:
        """Whether there is anything to ask."""
        return bool(self.base_url and self.model)


def server_of(url: str) -> guard.Server | None:
    """Host and port of an address; None of what is none."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "").lower().rstrip("."), guard.port_of(parts)
    except ValueError:
        return None


def connection() -> Connection:
    """What an admin saved, else what the settings say. A key that was sealed under another SECRET_KEY counts as none."""
    row = LlmConnection.objects.first()
    if row is None:
        return Connection(
            settings.LLM_BASE_URL,
            settings.LLM_MODEL,
            settings.LLM_API_KEY,
            price_in=settings.LLM_PRICE_IN,
            price_out=settings.LLM_PRICE_OUT,
        )
    try:
        key = sealing.opened(row.secret)
    except sealing.CannotOpen:
        key = ""
    return Connection(row.base_url, row.model, key, row.own_network, row.price_in, row.price_out, saved=True)


def in_use() -> Connection | None:
    """The LLM; None where nobody has connected one."""
    saved = connection()
    return saved if saved.ready else None


def save(new: Connection, *, actor: Who) -> None:
    """Make this the installation's LLM; its key is stored sealed."""
    with transaction.atomic():
        row = LlmConnection.objects.select_for_update().first() or LlmConnection()
        row.base_url, row.model, row.own_network = new.base_url, new.model, new.own_network
        row.price_in, row.price_out = new.price_in, new.price_out
        row.secret, row.updated_by = sealing.seal(new.key), actor_of(actor).user
        row.save()
        detail = {"address": new.base_url, "model": new.model, "own_network": new.own_network}
        audit.record("llm.saved", actor=actor, target=str(row), detail=detail)
        Stamp.bump()  # what answers with it, in other processes too


def remove(*, actor: Who) -> None:
    """Forget what was saved; the settings hold again."""
    with transaction.atomic():
        LlmConnection.objects.all().delete()
        audit.record("llm.removed", actor=actor, target="LLM")
        Stamp.bump()


def wire(base_url: str, seconds: float, own_server: guard.Server | None, watch: llm.Watch | None = None) -> llm.Wire:
    """How calls reach a server: through the guard for outbound calls, each taking `seconds` at most, a slow answer's too. Errors
    quote only a server that the settings or an admin named."""
    try:
        parts = guard.check_url(base_url, own_server=own_server)
        named = guard.listed(parts.hostname or "", guard.port_of(parts), own_server)
    except guard.Refused:
        named = False  # and each call is refused
    # A server that the settings name may stand behind the proxy that the environment names.
    transport = None if named and getproxies() else guard.Transport(seconds, own_server=own_server)
    return llm.Wire(transport, tell=named, watch=watch)


def client(of: Connection, *, seconds: float = CALL_SECONDS, limits: llm.CallLimits | None = None) -> llm.Client:
    """A client of the LLM, whose calls take `seconds` at most."""
    return llm.Client(of.base_url, of.model, of.key, limits=limits, wire=wire(of.base_url, seconds, of.own_server))


def test(of: Connection) -> str:
    """Ask the LLM for one word; what it said, 200 characters at most. Raises LLMError or guard.Refused, in words for a page."""
    guard.check_url(of.base_url, own_server=of.own_server)
    limits = llm.CallLimits(timeout=TEST_SECONDS, tries=1, total=TEST_SECONDS)
    with client(of, seconds=TEST_SECONDS, limits=limits) as llm_client:
        return llm_client.complete([{"role": "user", "content": "Answer with the word: ready"}]).text.strip()[:200]
