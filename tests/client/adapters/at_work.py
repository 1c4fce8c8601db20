"""`python at_work.py NAME`: one adapter in the framework that it is for, with a router that names the agents whose key the text holds.

Runs in an environment that has the frameworks and what the engine needs. Exits with 77 where the framework is not installed.
`EXPORTED_MODEL` names the file that answers in the place of a server that is away.
"""

import importlib
import sys
from pathlib import Path

ABSENT = 77
#: Each adapter, and the module without which there is nothing to try. `with_NAME.py` tries it.
FRAMEWORKS = {
    "langgraph": "langgraph.graph",
    "openai_agents": "agents",
    "llama_index": "llama_index.core",
    "ag2": "autogen",
    "google_adk": "google.adk",
    "agent_framework": "agent_framework",
    "crewai": "crewai",
    "litellm": "litellm",
}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    sys.path.insert(0, str(Path(__file__).parents[3] / "client" / "src"))
    try:
        importlib.import_module(FRAMEWORKS[sys.argv[1]])
    except ImportError as error:
        print(error)
        sys.exit(ABSENT)
    importlib.import_module(f"tests.client.adapters.with_{sys.argv[1]}").works()
