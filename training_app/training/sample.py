"""A sample pool for whoever wants to look around first: the demo's support desk, with its labels and a router that trains at once."""

import tempfile
from pathlib import Path

from agents_app import pools
from agents_app.audit import Who
from agents_app.models import Pool
from datasets_app.demo.generate import write_demo
from datasets_app.files import imports
from datasets_app.labeling import queue
from training_app.engine.data.folders import read_agents
from training_app.training import runs

SLUG = "sample"


def make(*, actor: Who) -> Pool:
    """The sample pool, made where there is none: agents, guidelines, some thousand labeled queries, and a run that promotes its
    model."""
    before = Pool.objects.filter(slug=SLUG).first()
    if before is not None:
        return before
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_demo(folder)
        pool = pools.create_pool("Customer support (sample)", SLUG, actor=actor)
        pools.load_agents(pool, read_agents(folder / "agents.jsonl"), actor)
        pools.set_guidelines(pool, (folder / "guidelines.md").read_text("utf-8"), actor=actor)
        imports.load_folder(pool, folder, author=actor)
    queue.fill(pool)
    runs.launch(pool, promote=True, author=actor)
    return pool
