"""Which words of a text call for each agent, by the weights of the model in use: what pages mark in the text itself."""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agents_app.models import Pool
from training_app.answering import serving
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.reading.languages import COMPOUND, MARKS
from training_app.engine.routing.router import Router
from training_app.versions import registry

log = logging.getLogger(__name__)

Mark = tuple[int, int, int]
#: Parts of a text, words and pieces of words, that count for each agent: the weightiest.
PARTS = 64
#: A word is marked whose weight is at least such a share of the weightiest word's; from each further share on more strongly.
SHARES = (0.2, 0.5, 0.8)


def of_pool(pool: Pool, query: str) -> Mapping[int, Sequence[Mark]]:
    """For the hook `words_for_agents`: by the pool's active model; nothing without one that can be used."""
    model = registry.active(pool)
    if model is None:
        return {}
    try:
        return of_router(serving.router_of(model), query)
    except (registry.RegistryError, ArtifactError) as error:
        log.warning("no words are marked in %s: %s", pool.slug, error)
        return {}


def of_router(router: Router, query: str) -> dict[int, list[Mark]]:
    """Agent → (start, end, strength from 1 to 3) of each word of the text to route that speaks for it, in order. Places are those of
    JavaScript, in units of UTF-16. Agents without such a word are left out, as are all where the scorer cannot name words."""
    weights = router.weights(query, PARTS)
    marked = {agent: in_text(str(query), parts) for agent, parts in weights.items()}
    return {agent: marks for agent, marks in marked.items() if marks}


def in_text(text: str, weights: Iterable[tuple[str, float]]) -> list[Mark]:
    """The words of a text by the weights of its n-grams, as scorers name them: `two words`, `·pie·`, `·␣pie·`."""
    # Each n-gram shares its weight among its places. A letter that changes its length in small letters would move what follows.
    low = "".join(character.lower() if len(character.lower()) == 1 else character for character in text)
    each: defaultdict[int, float] = defaultdict(float)
    for name, weight in weights:
        places = [range(*match.span()) for match in re.finditer(_pattern(name), low)]
        letters = [place for span in places for place in span if not low[place].isspace()]
        for place in letters:
            each[place] += weight / len(letters)
    words = [(match.span(), sum(each[place] for place in range(*match.span()))) for match in COMPOUND.finditer(text)]
    weightiest = max((weight for _span, weight in words), default=0.0)
    if weightiest <= 0:
        return []
    return [
        (_utf16(text, start), _utf16(text, end), sum(weight >= share * weightiest for share in SHARES))
        for (start, end), weight in words
        if weight >= SHARES[0] * weightiest
    ]


def _pattern(name: str) -> str:
    """What finds an n-gram in a text: of words, whole ones with whatever stands between; of characters, its letters."""
    before, after, nothing = rf"(?<![\w{MARKS}])", rf"(?![\w{MARKS}])", r"(?!)"
    if name.startswith("·") and name.endswith("·") and len(name) > 2:
        head, tail, parts = before * (name[1] == "␣"), after * (name[-2] == "␣"), name[1:-1].split("␣")
    else:
        head, tail, parts = before, after, name.split()
    whole = r"[\W_]+".join(re.escape(part) for part in parts if part)
    return f"{head}{whole}{tail}" if whole else nothing


def _utf16(text: str, place: int) -> int:
    return len(text[:place].encode("utf-16-le", "surrogatepass")) // 2
