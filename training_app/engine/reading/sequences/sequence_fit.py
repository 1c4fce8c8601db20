"""A scorer that reads the sentence, training half (torch). What is learnt, and the serving half, stand in `sequence`.

`SequenceScorer.fit` trains word vectors, the recurrence and the word-by-word choice of agent together, by the binary
cross-entropy of the whole text's margins: nobody ever says which words belong to which agent. What makes it learn
from few texts, in seconds, on one core:

1. Characters. A word's vector is its own plus the mean of its hashed n-grams' (Bojanowski et al. 2017).
2. Rare words are forgotten on purpose: a word's own vector gives way to the unknown word's with probability
   a / (a + count) (Kiperwasser and Goldberg 2016, arXiv 1603.04351), so that names cannot be learnt by heart and the
   unknown word is trained at all. In a large pool some of its n-grams are left out each time, for the same reason.
3. One dropout mask per text and layer, the same at every word (Gal and Ghahramani 2016, arXiv 1512.05287).
4. The served weights are the running average of the trained ones (Polyak and Juditsky 1992), and the learning rate
   falls along a cosine to nothing (Loshchilov and Hutter 2017, arXiv 1608.03983). The schedule's length depends on
   the number of rows alone, so that no row need be held back to find the end.
5. Where "none of these" is an answer, hollow texts teach what it means (outlier exposure: Hendrycks, Mazeika and
   Dietterich 2019, arXiv 1812.04606, with outliers made from the rows themselves): the words that tell the required
   agents are replaced by words that do not exist, and then none is required. Without them "what is the ..." is
   evidence for somebody.
6. Where queries ask several things, some of a small pool's are joined to one that asks a single thing, as MixSNIPS was
   made of SNIPS (Qin et al. 2020, arXiv 2004.10087), and need the agents of both: words stand beside others than the
   few that the rows show.

All draws come from generators seeded by `fit`: the same rows and seed give the same scorer on the same machine. It takes
one thread, as the policy does: several would wait for each other at products too small to share, the longer the busier
the machine is, and a scorer would depend on their number.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training_app.engine.adam import Adam
from training_app.engine.data.arrays import BoolArray
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading.scorers import prior_log_odds
from training_app.engine.reading.sequences.joining import Joining
from training_app.engine.reading.sequences.recurrence_fit import Recurrence
from training_app.engine.reading.sequences.sequence import (
    MAX_NGRAMS,
    SURE,
    Layer,
    SequenceMargins,
    Votes,
    ngram_buckets,
    split_words,
)

PAD, UNKNOWN = 0, 1  # rows of the word table: no word, and any word without a vector of its own


class Network(nn.Module):
    """Word vectors, two recurrences and the word-by-word choice of agent; see `sequence` for the equations.

    `buckets` int64[K], where given, are the n-gram buckets that are trained, and `ngrams` has a row for each and one of padding: a
    small pool uses a tenth of them, and each update would pass over all. The others stay as they were drawn.
    """

    def __init__(
        self,
        settings: SequenceScorer,
        words: int,
        agents: int,
        draw: torch.Generator,
        buckets: Tensor | None = None,
    ) -> None:
        super().__init__()
        width, states = settings.width, settings.states
        self.own = nn.Parameter(torch.randn(words + 2, width, generator=draw) * 0.1)  # [V + 2, D]
        # A bag's mean of six or so vectors has the spread of one word's own.
        self.drawn = torch.randn(settings.buckets + 1, width, generator=draw) * 0.1 * math.sqrt(6)
        self.trained = torch.arange(settings.buckets) if buckets is None else buckets
        self.padding = len(self.trained)
        self.ngrams = nn.Parameter(torch.cat([self.drawn[self.trained], self.drawn[-1:]]))
        with torch.no_grad():
            self.own[PAD] = 0
        widths = [width] + [states] * settings.layers
        self.layers = nn.ModuleList(
            Recurrence(widths[k], states, settings.window if k == 0 else 1, draw) for k in range(settings.layers)
        )
        self.speaks = nn.Parameter(torch.empty(states, agents + 1))  # W
        self.looks = nn.Parameter(torch.empty(states, agents))  # Q
        for heads in (self.speaks, self.looks):
            nn.init.xavier_uniform_(heads, generator=draw)
        self.head_bias = nn.Parameter(torch.zeros(agents + 1))
        self.bias = nn.Parameter(torch.zeros(agents))

    def all_ngrams(self) -> Tensor:
        """The vectors of all buckets, trained or not, float32[buckets, D]."""
        table = self.drawn[:-1].clone()
        table[self.trained] = self.ngrams[:-1].detach()
        return table

    def vectors(self, own_rows: Tensor, bags: Tensor) -> Tensor:
        """own_rows int64[U], rows of the word table; bags int64[U, G], rows of `ngrams`, padded with the last -> float32[U, D]."""
        grams = nn.functional.embedding_bag(bags, self.ngrams, mode="mean", padding_idx=self.padding)
        return nn.functional.embedding(own_rows, self.own, padding_idx=PAD) + grams

    def forward(self, x: Tensor, mask: Tensor, dropped: Sequence[Tensor] | None = None) -> Tensor:
        """x float32[T, B, D], mask float32[T, B, 1], one dropout mask [B, width] per layer's input and the last
        layer's output -> margins float32[B, A]."""
        for number, layer in enumerate(self.layers):
            x = layer(x if dropped is None else x * dropped[number], mask)
        if dropped is not None:
            x = x * dropped[-1]
        log_share = torch.log_softmax(x @ self.speaks + self.head_bias, dim=2)[..., :-1]  # log p_t,a
        log_odds = log_share - torch.log(-torch.expm1(log_share.clamp(max=-SURE)))  # [T, B, A]
        attention = torch.softmax((x @ self.looks).masked_fill(mask == 0, -1e4), dim=0)  # w_t,a
        return (attention * log_odds).sum(dim=0) + self.bias


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of the training texts, numbered from 1, and after them words that do not exist.

    own int64[W]: row of each in the word table; buckets int64[K]: the n-gram buckets of them all, ascending; bags int64[W, G]: the
    numbers of a word's in `buckets`, K for padding; count float32[W]; telling float32[W, A]: the smoothed share of the texts with
    the word that require each agent; own_words: words that have a vector of their own, in the order of the table's rows from 2;
    invented: how many words at the end do not exist.
    """

    number: dict[str, int]
    own: Tensor
    buckets: Tensor
    bags: Tensor
    count: Tensor
    telling: Tensor
    own_words: list[str]
    invented: int


INVENTED = 4_000
JOINS = 0.4  # of the share of queries that ask several things
MANY_ROWS = 20_000  # from this on it learns with fewer n-grams
FEW_ROWS = 2_000  # below this, `SequenceScorer.for_rows` learns less, faster
_SMOOTH = 2.0  # texts' worth of prior in `telling`


def _counts(texts: Sequence[Sequence[str]]) -> dict[str, float]:
    """How often each word was met anew.

    Where texts are joined from the same passages, a name that is in one passage occurs in every text with it, and its
    occurrences say nothing more. A word between the same two neighbours wherever it occurs was met once: how often
    such words occur, by the median, is how often the texts repeat themselves, and all counts are divided by it.
    """
    occurs: Counter[str] = Counter()
    between: dict[str, set[tuple[str, str]]] = {}
    for words in texts:
        occurs.update(words)
        for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
            between.setdefault(word, set()).add((before, after))
    once = [occurs[word] for word, neighbours in between.items() if len(neighbours) == 1]
    repeated = float(np.median(once)) if once else 1.0
    return {word: count / repeated for word, count in occurs.items()}


def _lexicon(
    texts: Sequence[Sequence[str]], Y: BoolArray, asked: BoolArray, settings: SequenceScorer, rng: np.random.Generator
) -> Lexicon:
    counts = _counts(texts)
    number = {word: row for row, word in enumerate(sorted(counts), start=1)}
    frequent = sorted((w for w in counts if round(counts[w]) >= settings.min_count), key=lambda w: (-counts[w], w))
    own_words = frequent[: settings.max_words]
    own_row = {word: row for row, word in enumerate(own_words, start=2)}
    size = len(number) + 1 + INVENTED
    own = torch.full((size,), UNKNOWN)
    own[0] = PAD
    bags = np.full((size, MAX_NGRAMS), settings.buckets)
    count = torch.zeros(size)
    grams: list[int] = []
    for word, row in number.items():
        own[row] = own_row.get(word, UNKNOWN)
        count[row] = counts[word]
        buckets = ngram_buckets(word, settings.buckets)
        bags[row, : len(buckets)] = buckets
        grams += buckets
    pool = np.array(grams or [0])
    for bag in bags[len(number) + 1 :]:
        length = rng.integers(4, 20)
        bag[:length] = pool[rng.integers(0, len(pool), length)]
    used, rows_of_bags = np.unique(bags, return_inverse=True)
    used = used[used < settings.buckets]
    # An agent that was not asked about a text is no negative there: the text does not count for it.
    prior = Y.sum(axis=0) / np.maximum(asked.sum(axis=0), 1)
    containing = np.zeros((len(number) + 1, Y.shape[1]), np.float32)
    required = np.zeros((len(number) + 1, Y.shape[1]), np.float32)
    for words, y, spoken_of in zip(texts, Y, asked, strict=True):
        rows = [number[word] for word in set(words)]
        containing[rows] += spoken_of
        required[rows] += y
    telling = torch.zeros(size, Y.shape[1])
    shares = (required + _SMOOTH * prior) / (containing + _SMOOTH)
    telling[: len(required)] = torch.from_numpy(shares.astype(np.float32))
    numbered = torch.from_numpy(rows_of_bags.reshape(bags.shape))  # padding, the highest number, comes last
    return Lexicon(number, own, torch.from_numpy(used), numbered, count, telling, own_words, INVENTED)


@dataclass(frozen=True, slots=True)
class SequenceScorer:
    """Settings of a sequence scorer; `fit` trains one. The defaults were chosen on validation data of three pools.

    width: of a word vector. states: of a layer's output, both directions together. window: words either side seen at
    once by the first layer, itself included. updates: at least so many, in 40 passes over the rows at most. passes:
    over the rows, whatever `updates` says; None lets the number of rows decide.
    """

    kind: ClassVar[str] = "sequence"
    folds: ClassVar[int] = 3

    width: int = 64
    states: int = 192
    layers: int = 2
    window: int = 3
    buckets: int = 16_384
    max_words: int = 40_000
    min_count: int = 2
    updates: int = 1_500
    passes: float | None = None
    batch_size: int | None = None
    learning_rate: float = 3e-3
    dropout: float = 0.4
    word_dropout: float = 0.05
    rare: float = 10.0
    averaging: float = 0.998
    gram_dropout: float = 0.0
    hollow_share: float = 0.1
    hollow_threshold: float = 0.5
    empty_weight: float = 3.0
    joins: float = 0.0

    @classmethod
    def for_rows(cls, rows: int) -> SequenceScorer:
        """The settings for a pool of so many rows.

        Few rows get one layer of half the states, a third of the updates and four times the rate. Out-of-fold Jaccard
        of three folds of 736 rows at 500 updates: two layers at rates 0.005, 0.008 and 0.014 had 0.902, 0.926 and
        0.937; one layer at 0.012 had 0.939, in three quarters of the time, and 0.921 where n-grams were left out.

        Many rows are learnt with three n-grams in ten left out: 500 updates are too few for that, and thousands enough.
        """
        if rows < FEW_ROWS:
            return cls(layers=1, states=96, updates=500, learning_rate=1.2e-2, joins=JOINS)
        return cls(gram_dropout=0.3) if rows >= MANY_ROWS else cls()

    def schedule(self, rows: int) -> tuple[int, int]:
        """(batch size, updates) for this many rows: small batches and many passes for few rows, two for many."""
        batch = self.batch_size or (16 if rows < FEW_ROWS else 32 if rows < 8_000 else 64)
        if self.passes is not None:
            return batch, max(1, round(self.passes * rows / batch))
        return batch, max(1, round(min(max(self.updates, 2 * rows / batch), 40 * rows / batch)))

    # Over 60 lines. The whole training loop, with what is checked and kept between its steps.
    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
        validation: tuple[Sequence[str], BoolArray, BoolArray] | None = None,
    ) -> SequenceMargins:
        """Train on texts (N), Y bool[N, A] and asked bool[N, A]; an agent that was not asked has no loss.

        With `validation` (texts, Y, asked), the averaged weights of lowest loss on it are kept, and training stops
        once five checks in a row, a twentieth of the schedule apart, found none lower. Raises ValueError where there
        is no text to learn from.
        """
        if not len(texts):
            raise ValueError("a sequence scorer needs at least one labeled text to learn from")
        torch.set_num_threads(1)
        rng = np.random.Generator(np.random.PCG64(seed))
        draw = torch.Generator().manual_seed(seed)
        split = [split_words(text) for text in texts]
        lexicon = _lexicon(split, Y & asked, asked, self, rng)
        rows = [torch.tensor([lexicon.number[word] for word in words] or [PAD]) for words in split]
        target, counted = torch.from_numpy((Y & asked).astype(np.float32)), torch.from_numpy(asked.astype(np.float32))
        empty = torch.from_numpy(~(Y & asked).any(axis=1) & asked.all(axis=1))  # [N]: surely none of these
        network = Network(self, len(lexicon.own_words), Y.shape[1], draw, lexicon.buckets)
        average = copy.deepcopy(network).requires_grad_(False)
        forget = self.rare / (self.rare + lexicon.count)  # [W]
        optimizer = Adam(network.parameters(), betas=(0.9, 0.98), fused=True)
        batch_size, updates = self.schedule(len(texts))
        best, best_loss, since = None, math.inf, 0
        check = max(1, updates // 20)
        batches = _batches([len(r) for r in rows], batch_size, rng)
        joining = Joining.between(rows, target, counted, self.joins)
        for update in range(1, updates + 1):
            chosen = next(batches)
            read, y, is_counted = joining.of(chosen, draw)
            ids = nn.utils.rnn.pad_sequence(read)  # int64[T, B]
            mask = _mask([len(row) for row in read], ids.shape[0])
            weight = is_counted
            if bool(empty.any()):
                weight = is_counted * torch.where(empty[chosen] & ~y.any(dim=1), self.empty_weight, 1.0)[:, None]
                ids, hollow = self._hollowed(ids, y, lexicon, draw)
                y = torch.where(hollow[:, None], 0.0, y)
                weight = torch.where(hollow[:, None], is_counted, weight)
            unique, place = torch.unique(ids, return_inverse=True)
            forgotten = (torch.rand(len(unique), generator=draw) < forget[unique]) & (unique != 0)
            own = torch.where(forgotten, UNKNOWN, lexicon.own[unique])
            x = network.vectors(own, self._thinned(lexicon.bags[unique], network.padding, draw))[place]  # [T, B, D]
            x = x * (torch.rand(*ids.shape, 1, generator=draw) >= self.word_dropout) * mask
            margins = network(x, mask, self._dropout_masks(len(chosen), draw))
            loss = nn.functional.binary_cross_entropy_with_logits(margins, y, weight, reduction="sum") / len(chosen)
            loss.backward()
            nn.utils.clip_grad_norm_(optimizer.parameters, 1.0)
            optimizer.step(self._rate(update, updates))
            if update % 4 == 0 or update == updates:
                keep = min(self.averaging, (1 + update) / (10 + update)) ** 4
                with torch.no_grad():
                    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - keep)
            if update % 20 == 0 or update == updates:
                progress(update, updates, f"loss {loss.item():.4f}")
            if validation is not None and (update % check == 0 or update == updates):
                held_out = self._loss(self._serving(average, lexicon, Y, asked), *validation)
                if held_out < best_loss:
                    best, best_loss, since = copy.deepcopy(average.state_dict()), held_out, 0
                else:
                    since += 1
                if since >= 5:
                    break
        if best is not None:
            average.load_state_dict(best)
        return self._serving(average, lexicon, Y, asked)

    def _rate(self, update: int, updates: int) -> float:
        """Warm-up over the first tenth, 200 updates at most, then half a cosine to a hundredth of the peak."""
        warm = min(1.0, update / max(1, min(200, updates // 10)))
        return self.learning_rate * warm * max(0.01, 0.5 * (1 + math.cos(math.pi * update / updates)))

    def _dropout_masks(self, batch: int, draw: torch.Generator) -> list[Tensor]:
        keep = 1 - self.dropout
        widths = [self.width] + [self.states] * self.layers
        return [(torch.rand(batch, width, generator=draw) < keep).float() / keep for width in widths]

    def _thinned(self, bags: Tensor, padding: int, draw: torch.Generator) -> Tensor:
        """bags int64[U, G] without some of their n-grams, `padding` in their places; a word's first one stays."""
        if not self.gram_dropout:
            return bags
        lost = torch.rand(bags.shape, generator=draw) < self.gram_dropout
        lost[:, 0] = False
        return bags.masked_fill(lost, padding)

    def _hollowed(self, ids: Tensor, y: Tensor, lexicon: Lexicon, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """ids int64[T, B], y float32[B, A] -> ids with the telling words of some texts replaced, and which, bool[B]."""
        of_required = (lexicon.telling[ids] * y).amax(dim=2)  # [T, B]
        drawn = torch.rand(ids.shape[1], generator=draw) < self.hollow_share
        tells = (of_required > self.hollow_threshold) & (ids != 0) & drawn
        start = len(lexicon.own) - lexicon.invented
        made_up = start + torch.randint(lexicon.invented, ids.shape, generator=draw)
        return torch.where(tells, made_up, ids), tells.any(dim=0)

    def _serving(self, network: Network, lexicon: Lexicon, Y: BoolArray, asked: BoolArray) -> SequenceMargins:
        """The numpy form of a trained network."""
        word_ids = torch.tensor([lexicon.number[word] for word in lexicon.own_words], dtype=torch.int64)
        with torch.no_grad():
            vectors = [
                network.vectors(lexicon.own[part], lexicon.bags[part])
                for part in torch.split(word_ids, 4_096)
                if len(part)
            ]
            table = torch.cat(vectors) if vectors else torch.zeros(0, self.width)
        one_class = (~(Y & asked).any(axis=0)) | (~(~Y & asked).any(axis=0))
        return SequenceMargins(
            words=lexicon.own_words,
            vectors=_array(table).astype(np.float16),
            unknown=_array(network.own[UNKNOWN]).astype(np.float16),
            ngrams=_array(network.all_ngrams()).astype(np.float16),
            layers=[
                Layer(_array(layer.weight), _array(layer.bias), layer.window, layer.states)
                for layer in network.layers
                if isinstance(layer, Recurrence)
            ],
            votes=Votes(
                _array(torch.cat([network.speaks, network.looks], dim=1)),
                _array(network.head_bias),
                _array(network.bias),
            ),
            fixed=np.where(one_class, prior_log_odds(Y, asked), np.nan).astype(np.float32),
        )

    def _loss(self, fitted: SequenceMargins, texts: Sequence[str], Y: BoolArray, asked: BoolArray) -> float:
        """Mean cross-entropy of the asked (text, agent) pairs."""
        margins = fitted.logits(texts).astype(np.float64)
        losses = np.logaddexp(0.0, np.where(Y, -margins, margins))
        return float(losses[asked].mean())


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy that further training will not change."""
    return np.array(tensor.detach().numpy(), np.float32, order="C")


def _mask(lengths: Sequence[int], steps: int) -> Tensor:
    """float32[T, B, 1]: 1 at true words."""
    return (torch.arange(steps)[:, None] < torch.tensor(lengths)[None, :]).float()[:, :, None]


def _batches(lengths: Sequence[int], size: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Batches of row numbers without end: each pass shuffled, rows of like length together (little padding)."""
    length = np.array(lengths)
    while True:
        order = rng.permutation(len(length))
        batches: list[list[int]] = []
        for start in range(0, len(order), 50 * size):
            part = order[start : start + 50 * size]
            part = part[np.argsort(length[part], kind="stable")]
            batches += [part[k : k + size].tolist() for k in range(0, len(part), size)]
        for k in rng.permutation(len(batches)):
            yield batches[k]
