"""The sentence encoder's arithmetic: the package's own vectors, and the same bits alone, in a batch and from a table that is full."""

import random

import numpy as np
import pytest

from tests.engine.synthetic import NOTHING, PHRASES
from training_app.engine.reading import sentences
from training_app.engine.reading.token_rows import TokenRows

STRANGE = [
    "", " ", "\0", "🙂" * 50, "où est mon colis ?", "где моя посылка", "我想卖这套房子吧", "ผมต้องการคืนสินค้า", "أين طردي", "ﷺ" * 9,
    "x" * 3_000, "mein Paket ist nicht da " * 150,
]  # fmt: skip


def texts(count: int) -> list[str]:
    words = " ".join([*NOTHING, *(phrase for own in PHRASES.values() for phrase in own)]).split()
    rng = random.Random(4)
    return [*STRANGE, *(" ".join(rng.choices(words, k=rng.randint(1, 30))) for _ in range(count))]


@pytest.fixture(scope="module")
def encoder() -> TokenRows:
    found = sentences._encoder()
    assert isinstance(found, TokenRows)
    return found


def test_vectors_are_those_of_the_package(encoder: TokenRows) -> None:
    every = texts(200)
    assert np.abs(encoder.encode(every) - encoder._weights.encode(every)).max() < 5e-6


def test_tokens_are_those_of_the_package(encoder: TokenRows) -> None:
    pieces = encoder._weights.sp._pieces
    assert not [piece for piece in pieces if "\u2581" in piece[1:]]  # no token reaches into the next word
    for text in [*texts(300), "  two  spaces ", "a\ttab", 'A-b_c "x" 99%', "co-op's", "~`!@#$%^&*()"]:
        assert encoder.tokens(text) == encoder._weights.sp.encode(text, out_type=int, add_bos=True, add_eos=True)


@pytest.mark.at_length
def test_a_text_has_the_same_bits_alone_and_in_a_batch(encoder: TokenRows) -> None:
    every = texts(500)
    together = encoder.encode(every)
    for text, vector in zip(every, together, strict=True):
        assert np.array_equal(encoder.encode([text])[0], vector)


def test_words_that_were_learned_before_change_no_bit_and_fill_half_of_the_table(encoder: TokenRows) -> None:
    every, ready = texts(60), TokenRows(encoder._weights, 60)
    ready.learn(word for text in every for word in text.split())
    assert 20 < len(ready._rows.place) <= 30
    assert np.array_equal(ready.encode(every), encoder.encode(every))


@pytest.mark.parametrize("room", [1, 7, 60])
def test_a_table_that_is_full_starts_again_and_changes_no_bit(encoder: TokenRows, room: int) -> None:
    every, small = texts(60), TokenRows(encoder._weights, room)
    assert np.array_equal(small.encode(every), encoder.encode(every))
    assert len(small._rows.place) <= room
