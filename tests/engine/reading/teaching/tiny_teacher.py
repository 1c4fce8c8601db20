"""A sentence encoder of random weights in sentence-transformers' format, small enough to make in a test."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from tests.engine.synthetic import examples

WIDTH = 16


def make_teacher(folder: Path, *, pooling: str = "mean", layers: int = 2) -> Path:
    """Writes the folder; its words are those of the synthetic queries, letters for the rest."""
    from transformers import BertConfig, BertModel  # takes seconds to load: only where it is used

    words = sorted({word for e in examples(300) for word in e.text.lower().split() if word.isalpha()})
    letters = list("abcdefghijklmnopqrstuvwxyz")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)]
    pieces += [w for w in words if w not in letters]
    tokenizer = Tokenizer(WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(pieces),
                hidden_size=WIDTH,
                num_hidden_layers=layers,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=64,
            )
        )
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{_KEY[pooling]}": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32}))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n")
    return folder


_KEY = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
