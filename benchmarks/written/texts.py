"""Queries that were written for the agents of a pool, as files hold them: the ids of the agents, a colon, the text; "-" for nobody.

Each file was written from the descriptions of the pool's agents alone, before any of its queries was read.
"""

from pathlib import Path

from training_app.engine.data.examples import Example

HERE = Path(__file__).parent


def written(pool: str) -> list[Example]:
    """The written queries of that pool. Raises ValueError for a line that cannot be read."""
    examples = []
    for number, line in enumerate((HERE / f"{pool}.txt").read_text("utf-8").splitlines(), 1):
        ids, colon, text = line.partition(":")
        try:
            required = frozenset() if ids.strip() == "-" else frozenset(map(int, ids.split()))
        except ValueError:
            colon = ""
        if not colon or not text.strip() or (not required and ids.strip() != "-"):
            raise ValueError(f"{pool}.txt, line {number}: agents, a colon and a text are needed, not {line!r}")
        examples.append(Example(f"w{number}", text.strip(), required))
    return examples
