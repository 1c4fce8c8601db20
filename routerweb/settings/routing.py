"""What a route may cost, what is kept of it, and whom agents and models are asked by."""

from importlib.util import find_spec
from ipaddress import ip_network

from django.core.exceptions import ImproperlyConfigured

from routerweb import env

STAMP_SECONDS = env.number("STAMP_SECONDS", 1.0, low=0.1, high=2.0)
MAX_QUERY_CHARACTERS = env.integer("MAX_QUERY_CHARACTERS", 20_000, low=100)
MAX_MESSAGES = env.integer("MAX_MESSAGES", 40, low=2)
MAX_CONVERSATION_CHARACTERS = env.integer("MAX_CONVERSATION_CHARACTERS", 60_000, low=100)
MAX_BATCH_QUERIES = env.integer("MAX_BATCH_QUERIES", 1_000, low=1)
MAX_BATCH_CHARACTERS = env.integer("MAX_BATCH_CHARACTERS", 1_000_000, low=100)
ROUTE_REQUESTS_PER_MINUTE = env.integer("ROUTE_REQUESTS_PER_MINUTE", 0, low=0)
ROUTE_RATE_PER_MINUTE = env.integer("ROUTE_RATE_PER_MINUTE", 0, low=0)
ROUTE_CHARACTERS_PER_MINUTE = env.integer("ROUTE_CHARACTERS_PER_MINUTE", 0, low=0)
SWEEP_RUNS = env.integer("SWEEP_RUNS", 30, low=1)
KEEP_MODELS = env.integer("KEEP_MODELS", 10, low=1)
PROMOTION_MARGIN = env.number("PROMOTION_MARGIN", 0.02, low=0.0, high=1.0)
FOUR_EYES = env.boolean("FOUR_EYES", False)
UNSURE_PER_DAY = env.integer("UNSURE_PER_DAY", 50, low=0)
UNSURE_CONFIDENCE = env.number("UNSURE_CONFIDENCE", 0.5, low=0.0, high=1.0)
HEALTH_TIMEOUT = env.number("HEALTH_TIMEOUT", 5.0, low=0.1, high=30.0)
HEALTH_FAILURES = env.integer("HEALTH_FAILURES", 3, low=1, high=100)
DECISION_BUFFER = env.integer("DECISION_BUFFER", 10_000, low=0)
DECISION_SECONDS = env.number("DECISION_SECONDS", 0.25, low=0.05, high=10.0)
DECISION_SHARE = env.number("DECISION_SHARE", 1.0, low=0.0, high=1.0)
DECISION_DAYS = env.integer("DECISION_DAYS", 90, low=1)
DECISION_ARCHIVE = env.text("DECISION_ARCHIVE", "")
ARCHIVE_DAYS = env.integer("ARCHIVE_DAYS", 0, low=0, high=36_500)
AWS_ENDPOINT_URL = env.address("AWS_ENDPOINT_URL")
AWS_REGION = env.text("AWS_REGION", "")
if DECISION_ARCHIVE and not (find_spec("duckdb") and find_spec("pyarrow")):
    raise ImproperlyConfigured(
        "DECISION_ARCHIVE: DuckDB or pyarrow is not installed here. `pip install -r requirements-archive.txt` installs both."
    )
if "://" in DECISION_ARCHIVE and not (
    DECISION_ARCHIVE.startswith("s3://") and DECISION_ARCHIVE.removeprefix("s3://").strip("/")
):
    raise ImproperlyConfigured(f"DECISION_ARCHIVE: {DECISION_ARCHIVE!r} is neither a folder nor s3://BUCKET/PREFIX.")
INTERNAL_HOSTS = env.words("INTERNAL_HOSTS")
for _network in INTERNAL_HOSTS:
    try:
        "/" in _network and ip_network(_network, strict=False)
    except ValueError:
        raise ImproperlyConfigured(
            f"INTERNAL_HOSTS: {_network!r} is no network. Expected names, names with a port, or networks such as 10.0.0.0/8."
        ) from None
# Off in the tests, where a thread's own connection would stand outside the test's transaction.
BACKGROUND_THREADS = True
MAX_UPLOAD_MB = env.integer("MAX_UPLOAD_MB", 256, low=1)
DATA_UPLOAD_MAX_MEMORY_SIZE = env.integer("MAX_BODY_MB", 25, low=1) * 1024 * 1024

# --- Orchestration ---

EXECUTOR_FUNCTIONS = env.words("EXECUTOR_FUNCTIONS")
MCP_COMMANDS = env.words("MCP_COMMANDS")
PROVIDER_AT_ONCE = env.integer("PROVIDER_AT_ONCE", 200, low=0)
PROVIDER_CALLS_PER_MINUTE = env.integer("PROVIDER_CALLS_PER_MINUTE", 0, low=0)
PROVIDER_LIMITS = env.limits("PROVIDER_LIMITS")
EPISODES_AT_ONCE = env.integer("EPISODES_AT_ONCE", 500, low=1)
EPISODE_STEPS = env.integer("EPISODE_STEPS", 20, low=1, high=100)
EPISODE_SECONDS = env.number("EPISODE_SECONDS", 600.0, low=1.0, high=86_400.0)
LLM_ORCHESTRATES = env.words("LLM_ORCHESTRATES")
EPISODE_DAYS = env.integer("EPISODE_DAYS", 90, low=1)

# --- Pre-labeling by an LLM ---

LLM_BASE_URL = env.address("LLM_BASE_URL", "https://api.openai.com/v1")
LLM_MODEL = env.text("LLM_MODEL")
LLM_API_KEY = env.text("LLM_API_KEY")
LLM_PRICE_IN = env.number("LLM_PRICE_IN", 0.0, low=0)
LLM_PRICE_OUT = env.number("LLM_PRICE_OUT", 0.0, low=0)
