"""Which words of clean text the correction of typing slips changes: it must change misspellings only.

    .venv/bin/python -m benchmarks.corrections DIR... [--texts 200] [--json FILE]

Each DIR is a folder as `benchmark` reads it. Learns the words of the folder's first --texts training texts, and of all of them, and
reads its test texts as a model would. Prints how many words it reads, how many it corrects, and each of those with what it makes of it
and in how many texts of all folders the word stands: what many people write may be a word that no list has. Whether a word is real is
for a reader to judge.
"""

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from training_app.engine.data.examples import Example
from training_app.engine.data.folders import read_folder
from training_app.engine.reading.tidying.tidied import WORD, Spelling


@dataclass(slots=True)
class Corrected:
    """What was corrected in a folder's test texts by the words of so many training `texts`: `changes` count (word, correction)."""

    folder: str
    texts: int
    words: int = 0
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)


def corrected(folder: str, examples: list[Example], texts: int) -> Corrected:
    """Read the test texts by the words of the first `texts` training texts; 0 for all."""
    training = [example.text for example in examples if example.split == "train"]
    training = training[: texts or None]
    spelling = Spelling.of(training)
    result = Corrected(folder, len(training))
    for example in examples:
        if example.split == "test":
            words, read = str(example.text).split(), spelling(str(example.text)).split()
            result.words += len(words)
            result.changes.update(pair for pair in zip(words, read, strict=True) if pair[0] != pair[1])
    return result


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was corrected there")
    options = parser.parse_args()
    results: list[Corrected] = []
    written: Counter[str] = Counter()  # texts that a word stands in
    for folder in options.folders:
        examples = list(read_folder(folder).examples)
        for example in examples:
            written.update(set(WORD.findall(str(example.text).lower())))
        results += [corrected(folder.name, examples, texts) for texts in (options.texts, 0)]
    for result in results:
        print(
            f"{result.folder:20} {result.texts:6} training texts: {result.changes.total():3} of {result.words:6} words"
        )
        for (word, correction), count in sorted(result.changes.items()):
            inside = WORD.search(word.lower())
            print(f"    {word} → {correction}, {count} times; in {written[inside[0]] if inside else 0} texts")
    words = sum(result.words for result in results)
    print(f"Corrected: {sum(result.changes.total() for result in results)} of {words} words.")
    if options.json:
        rows = [{**asdict(result), "changes": sorted(result.changes)} for result in results]
        options.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
