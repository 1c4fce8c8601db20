"""Fine-tuning a sentence encoder on a pool's labels, and exporting it. Imported by workers only: torch, transformers, onnxruntime.

    e(x)      = pooled vectors of x's tokens, of length one
    margin(a) = W_a · e(x) + b_a
    loss      = mean over rows n and asked agents a of  w_na · BCE(σ(margin), y_na)

Encoder and head are trained together (AdamW, Loshchilov and Hutter 2019; the rate warms up and falls along a cosine), the head fifty
times as fast, since it starts from nothing. Word vectors and the lower half of the layers stay as they are (Lee, Tang and Lin 2019,
arXiv 1911.03090: a quarter of the layers brings nine tenths of what all bring): a fit takes half the time, and some hundred labels
have fewer parameters to spoil. The agents' descriptions are rows as well, as in `fused_fit.py`.

What is served is the graph in ONNX with int8 weights (dynamic quantization), where its vectors are those of the full one by LIKE.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training_app.engine.data.arrays import BoolArray
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading.fused_fit import Taught
from training_app.engine.reading.scorers import prior_log_odds
from training_app.engine.reading.teaching.teacher import INSTALL, TeacherMargins, readable, tokenizer_of
from training_app.engine.reading.teaching.teacher_folder import TeacherFolder
from training_app.engine.settings import ConfigError

RATE, HEAD_RATE = 1e-4, 5e-3
BATCH = 16
#: Updates: forty passes over few rows, ten over more, and never more than MOST.
PASSES, ENOUGH, LEAST_PASSES, MOST = 40, 240, 8, 2_000
WARM = 0.1  # of the updates, until the rate is at its peak
LIKE = 0.97  # mean cosine of int8 and full vectors from which on nothing is lost
PROBES = 64  # texts that the two are compared on
OPSET = 17


class Encoder(nn.Module):
    """A transformer and its pooling: ids and mask int64[B, T] -> vectors of length one, float32[B, D]."""

    def __init__(self, transformer: Any, pooling: str) -> None:
        super().__init__()
        self.transformer, self.pooling = transformer, pooling

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state  # [B, T, D]
        if self.pooling == "cls":
            pooled = hidden[:, 0]
        else:
            mask = attention_mask[..., None].to(hidden.dtype)
            if self.pooling == "max":
                pooled = (hidden - 1e9 * (1 - mask)).amax(dim=1)
            else:
                pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        return nn.functional.normalize(pooled, dim=-1)


class TeacherScorer:
    """Fine-tunes the encoder of `folder`; rows of `taught` join the labeled ones. A fit is remembered by its rows: the student of a
    fold learns from the teacher of that fold, which need not be trained twice."""

    kind: ClassVar[str] = "teacher"
    folds: ClassVar[int] = 3

    def __init__(self, folder: TeacherFolder, taught: Taught | None = None) -> None:
        self.folder, self.taught = folder, taught
        self._made: dict[bytes, TeacherMargins] = {}

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> TeacherMargins:
        """texts (N), Y bool[N, A], asked bool[N, A]. Raises ConfigError where the encoder cannot be read."""
        # In this process the same texts, labels and seed are the same rows.
        contents = repr((list(texts), seed)).encode("utf-8", "surrogatepass") + Y.tobytes() + asked.tobytes()
        key = hashlib.blake2b(contents, digest_size=16).digest()
        if key not in self._made:
            self._made[key] = self._fit(list(texts), Y, asked, seed, progress)
        return self._made[key]

    def _fit(
        self, texts: list[str], Y: BoolArray, asked: BoolArray, seed: int, progress: ScorerProgress
    ) -> TeacherMargins:
        torch.set_num_threads(1)
        read = tokenizer_of((self.folder.path / "tokenizer.json").read_bytes(), self.folder.tokens)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # the encoder's dropout draws from the global generator
            encoder = _encoder(self.folder)
            weights, required = asked.astype(np.float32), (Y & asked).astype(np.float32)
            if self.taught is not None and self.taught.texts:
                texts = [*texts, *self.taught.texts]
                weights = np.concatenate([weights, self.taught.weights.astype(np.float32)])
                required = np.concatenate([required, self.taught.required.astype(np.float32)])
            tokens = [read.encode(readable(self.folder.prefix + text)).ids for text in texts]
            head = nn.Linear(encoder.transformer.config.hidden_size, Y.shape[1])
            with torch.no_grad():
                head.weight.zero_()
                head.bias.copy_(torch.from_numpy(prior_log_odds(Y, asked)))
            pad = int(getattr(encoder.transformer.config, "pad_token_id", 0) or 0)
            _tune(encoder, head, tokens, torch.from_numpy(required), torch.from_numpy(weights), pad, seed, progress)
        encoder.eval()
        probes = [t for t in dict.fromkeys(texts) if t][:PROBES]
        graph, int8 = _graph(encoder, [read.encode(readable(self.folder.prefix + t)).ids for t in probes])
        return TeacherMargins(
            np.frombuffer(graph, np.uint8),
            np.frombuffer((self.folder.path / "tokenizer.json").read_bytes(), np.uint8),
            np.ascontiguousarray(head.weight.detach().numpy().T, np.float32),
            head.bias.detach().numpy().astype(np.float32),
            tokens=self.folder.tokens,
            prefix=self.folder.prefix,
            about={**self.folder.about(), "int8": int8, "bytes": len(graph)},
        )


def _encoder(folder: TeacherFolder) -> Encoder:
    try:
        from transformers import AutoModel
        from transformers.utils import logging as transformers_logging
    except ImportError as error:
        raise ConfigError("teacher", f"needs the package transformers: {INSTALL}") from error
    transformers_logging.disable_progress_bar()
    try:
        transformer = AutoModel.from_pretrained(
            str(folder.path),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="eager",  # the form that the exporter knows of every architecture
            dtype=torch.float32,
        )
    except Exception as error:  # unknown architectures, wrong shapes, a broken file: of many kinds
        lines = str(error).splitlines() or [type(error).__name__]
        raise ConfigError("teacher", f"{folder.path} cannot be read: {lines[0][:300]}") from None
    _freeze(transformer)
    return Encoder(transformer, folder.pooling)


def _freeze(transformer: Any) -> None:
    """Its layers are the first list of as many modules as its settings say it has layers; where there is none, all but the word
    vectors learn."""
    transformer.get_input_embeddings().requires_grad_(False)
    count = getattr(transformer.config, "num_hidden_layers", 0)
    lists = (m for m in transformer.modules() if isinstance(m, nn.ModuleList) and len(m) == count)
    layers = next(lists, None)
    if layers is not None:
        inside = {id(p) for p in layers.parameters()}
        for layer in list(layers)[: count // 2]:
            layer.requires_grad_(False)
        for name, p in transformer.named_parameters():
            if id(p) not in inside and "embed" in name:
                p.requires_grad_(False)


def _short_floats() -> bool:
    """Whether this processor multiplies in bfloat16, which takes two thirds of the time; others would take longer."""
    asked = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(asked is not None and asked())


def updates(rows: int) -> int:
    """How many gradient steps so many rows get."""
    batches = -(-rows // BATCH)
    return min(PASSES * batches, max(ENOUGH, LEAST_PASSES * batches), MOST)


def _tune(
    encoder: Encoder,
    head: nn.Linear,
    tokens: Sequence[Sequence[int]],
    required: Tensor,
    weights: Tensor,
    pad: int,
    seed: int,
    progress: ScorerProgress,
) -> None:
    """required, known float32[N, A]: the target, and how much it counts."""
    total = updates(len(tokens))
    trained = [p for p in encoder.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": trained, "lr": RATE}, {"params": head.parameters(), "lr": HEAD_RATE}], weight_decay=0.01, fused=True
    )
    warm = max(1, round(WARM * total))

    def share(step: int) -> float:
        return min((step + 1) / warm, 0.5 + 0.5 * math.cos(math.pi * max(0, step - warm) / max(1, total - warm)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    rng = np.random.Generator(np.random.PCG64(seed))
    short = _short_floats()
    encoder.train()
    batches: list[NDArray[np.int64]] = []
    for step in range(total):
        if step % 5 == 0:
            progress(step, total, "fine-tuning")
        if not batches:
            order = rng.permutation(len(tokens))
            batches = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
        rows = batches.pop()
        ids, mask = _padded([tokens[i] for i in rows.tolist()], pad)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=short):
            vectors = encoder(ids, mask)
        margins = head(vectors.float())  # [B, A]
        counts = weights[rows]
        losses = nn.functional.binary_cross_entropy_with_logits(margins, required[rows], reduction="none")
        loss = (counts * losses).sum() / counts.sum().clamp(min=1.0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()


def _padded(tokens: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """ids and mask, int64[B, T]."""
    longest = max(1, *map(len, tokens))
    ids = torch.full((len(tokens), longest), pad)
    mask = torch.zeros((len(tokens), longest), dtype=torch.int64)
    for row, own in enumerate(tokens):
        ids[row, : len(own)] = torch.tensor(own, dtype=torch.int64)
        mask[row, : len(own)] = 1
    return ids, mask


def _not_the_quantizers(record: logging.LogRecord) -> bool:
    """It tells the root logger of every product that it leaves alone."""
    return "onnxruntime" not in record.pathname


def _graph(encoder: Encoder, probes: Sequence[Sequence[int]]) -> tuple[bytes, bool]:
    """The encoder in ONNX, with int8 weights where these lose nothing on `probes`, tokens of texts; and whether they are int8."""
    try:
        import onnxruntime
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise ConfigError("teacher", f"needs the packages onnxruntime and onnx: {INSTALL}") from error
    example = torch.ones((2, 7), dtype=torch.int64)
    names = ["input_ids", "attention_mask"]
    full: Any = io.BytesIO()  # the exporter takes it, whatever its types say
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's, about constants in a trace
        torch.onnx.export(
            encoder,
            (example, example),
            full,
            input_names=names,
            output_names=["vector"],
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in names},
            opset_version=OPSET,
            dynamo=False,
        )

    with tempfile.TemporaryDirectory() as place:
        whole, small = Path(place) / "full.onnx", Path(place) / "int8.onnx"
        whole.write_bytes(full.getvalue())
        root = logging.getLogger()
        root.addFilter(_not_the_quantizers)
        try:
            quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True)
        finally:
            root.removeFilter(_not_the_quantizers)
        quantized = small.read_bytes()

    def vectors(graph: bytes) -> NDArray[np.float32]:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        parts = []
        for own in probes:
            ids = np.array([own], np.int64)
            parts.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0])
        return np.array(parts, np.float32)

    like = float((vectors(full.getvalue()) * vectors(quantized)).sum(axis=1).mean()) if probes else 1.0
    return (quantized, True) if like >= LIKE else (full.getvalue(), False)
