"""The demo pool: its figure on screen means something only if the splits are apart and the rows are well labeled."""

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from datasets_app.demo import generate
from training_app.engine.data.conversations import before
from training_app.engine.data.examples import group_key
from training_app.engine.data.folders import read_folder

pytestmark = pytest.mark.any_database

ROOT = Path(__file__).resolve().parents[2]
SPLITS = ("train", "val", "test")
Splits = dict[str, list[generate.Row]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("demo")
    generate.write_demo(directory)
    return directory


@pytest.fixture(scope="module")
def splits(folder: Path) -> Splits:
    """The rows that are texts."""
    found = {split: generate.read_rows(folder / f"{split}.jsonl") for split in SPLITS}
    return {split: [row for row in rows if "text" in row] for split, rows in found.items()}


@pytest.fixture(scope="module")
def talks() -> dict[str, list[generate.Turn]]:
    return {split: generate.read_turns(split) for split in SPLITS}


@pytest.fixture(scope="module")
def agents(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "agents.jsonl").read_text(encoding="utf-8").splitlines()]


def words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold().replace("'", "")))


def sentences_of(template: str) -> set[str]:
    """Every sentence that the template's choices give, slots left as names."""
    parts = re.split(r"(\[[^\]]*\])", template)
    choices = [part[1:-1].split("|") if part.startswith("[") else [part] for part in parts]
    return {words("".join(choice)) for choice in itertools.product(*choices)}


def needs_of(split: str) -> set[str]:
    return {template for lines in generate.read_grammar(split).needs.values() for template in lines}


def test_ten_agents_each_fully_described(agents):
    assert [agent["id"] for agent in agents] == list(range(10))
    assert all(re.fullmatch("[A-Z]{2}", agent["code"]) for agent in agents)
    for field in ("code", "name", "description"):
        assert len({agent[field] for agent in agents}) == 10
    assert all(len(set(agent["keywords"])) >= 5 and agent["cost"] > 0 for agent in agents)


def test_sizes(splits):
    assert {split: len(rows) for split, rows in splits.items()} == {"train": 1600, "val": 250, "test": 190}
    assert len(generate.read_rows(generate.HERE / "train_handwritten.jsonl")) >= 120
    assert len(generate.read_rows(generate.HERE / "val_handwritten.jsonl")) >= 60


def test_readme_states_the_counts(splits):
    readme = (generate.HERE / "README.md").read_text(encoding="utf-8")
    for split in ("train", "val"):
        written = len(generate.read_rows(generate.HERE / f"{split}_handwritten.jsonl"))
        total = len(splits[split])
        assert f"| {split} | {written} | {total - written:,} | {total:,} |" in readme
    assert f"| test | {len(splits['test'])} | none | {len(splits['test'])} |" in readme


def test_rows_have_the_peer_format(splits, agents):
    ids = {agent["id"] for agent in agents}
    for rows in splits.values():
        for row in rows:
            assert list(row) == ["id", "text", "required_agents"]
            assert row["text"] == row["text"].strip() != ""
            assert row["required_agents"] == sorted(set(row["required_agents"]) & ids)
    every_id = [row["id"] for rows in splits.values() for row in rows]
    assert len(set(every_id)) == len(every_id)


def test_the_test_split_is_the_written_file_whatever_the_seed(splits):
    written = generate.read_rows(generate.HERE / "test.jsonl")
    assert splits["test"] == written == generate.make_splits(seed=99)["test"]


def test_no_query_occurs_twice(splits):
    texts = [row["text"] for rows in splits.values() for row in rows]
    for key in (generate.same_text_key, group_key):
        assert [text for text, count in Counter(map(key, texts)).items() if count > 1] == []


def test_the_grammars_share_no_template_and_no_sentence():
    train, val = (generate.read_grammar(split).templates() for split in ("train", "val"))
    assert train
    assert val
    assert not train & val
    assert not set().union(*map(sentences_of, train)) & set().union(*map(sentences_of, val))


def test_the_grammars_needs_are_not_near_copies():
    """Of all words of two sentences, at most three in four are shared."""
    train = [set(s.split()) for template in needs_of("train") for s in sentences_of(template)]
    assert len(needs_of("val")) >= 10
    for template in needs_of("val"):
        for sentence in sentences_of(template):
            of_val = set(sentence.split())
            assert max(len(of_val & other) / len(of_val | other) for other in train) < 0.75, sentence


def test_no_hand_written_row_is_a_filled_template():
    """Sentences of up to three words, which everybody writes ("wrong number sorry"), are let through."""

    def pattern(sentence: str) -> str:  # a slot holds up to four words
        return re.sub(rf"\b({'|'.join([*generate.FILLERS, 'order', 'amount'])})(s?)\b", r"\\w+( \\w+){0,3}", sentence)

    sentences = {s for split in ("train", "val") for template in needs_of(split) for s in sentences_of(template)}
    with_slots = [re.compile(pattern(s)) for s in sentences if len(s.split()) > 3]
    assert len(with_slots) > 20
    for name in ("test", "val_handwritten"):
        for row in generate.read_rows(generate.HERE / f"{name}.jsonl"):
            text = words(row["text"])
            assert not [p.pattern for p in with_slots if p.fullmatch(text)], row


@pytest.mark.parametrize("split", SPLITS)
def test_every_agent_and_every_set_size_is_represented(splits, split):
    rows = splits[split]
    sizes = Counter(len(row["required_agents"]) for row in rows)
    assert set(sizes) == {0, 1, 2, 3, 4}
    assert 0.07 <= sizes[0] / len(rows) <= 0.11
    assert 0.38 <= sum(sizes[n] for n in (2, 3, 4)) / len(rows) <= 0.6
    per_agent = Counter(agent for row in rows for agent in row["required_agents"])
    assert min(per_agent[agent] for agent in range(10)) >= 0.1 * len(rows)


def test_texts_vary_in_length_and_care(splits):
    for rows in splits.values():
        lengths = [len(row["text"].split()) for row in rows]
        assert min(lengths) <= 4
        assert max(lengths) >= 45
        assert 0.15 < sum(row["text"] == row["text"].lower() for row in rows) / len(rows) < 0.7
        assert not [row for row in rows if re.search(r"[—–\[\]{}|]", row["text"])]


def test_a_seed_fixes_every_byte(folder, tmp_path):
    script = "import sys; from datasets_app.demo.generate import write_demo; write_demo(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True, env={"PYTHONHASHSEED": "5"}, timeout=120
    )
    for name in ("agents", "unassigned", *SPLITS):
        assert (tmp_path / f"{name}.jsonl").read_bytes() == (folder / f"{name}.jsonl").read_bytes()


def test_the_waiting_texts_have_no_label_and_stand_in_no_split(folder, splits):
    waiting = [json.loads(line) for line in (folder / "unassigned.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(waiting) == generate.WAITING
    assert all(set(row) == {"id", "text"} for row in waiting)
    labeled = {generate.same_text_key(row["text"]) for rows in splits.values() for row in rows}
    assert labeled.isdisjoint(generate.same_text_key(row["text"]) for row in waiting)


def test_another_seed_composes_other_rows(splits):
    other = generate.make_splits(seed=generate.DEFAULT_SEED + 1)
    here, there = ({row["text"] for row in rows["train"]} for rows in (splits, other))
    assert len(here & there) < 0.5 * len(here)


def test_the_generator_needs_only_the_standard_library():
    script = (
        "import sys; import datasets_app.demo.generate; "
        "print([name for name in ('django', 'numpy', 'sklearn', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_command_line(tmp_path, capsys):
    assert generate.main([str(tmp_path / "new"), "--seed", "3"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "agents.jsonl", "guidelines.md", "test.jsonl", "train.jsonl", "unassigned.jsonl", "val.jsonl",
    ]  # fmt: skip
    assert "train 1600, val 250, test 190" in capsys.readouterr().out


def test_command_line_says_what_stopped_it(tmp_path, capsys):
    occupied = tmp_path / "file"
    occupied.write_text("")
    assert generate.main([str(occupied)]) == 1
    assert capsys.readouterr().err.strip() == f"cannot write the demo pool to {occupied}: File exists"


@pytest.mark.parametrize(("text", "reason"), [("hello [a|b\n", "line 1"), ("== BI\n[a|b\n", "line 2")])
def test_a_malformed_phrase_file_is_refused_with_its_line(tmp_path, monkeypatch, text, reason):
    (tmp_path / "phrases").mkdir()
    (tmp_path / "phrases" / "train.txt").write_text(text)
    monkeypatch.setattr(generate, "HERE", tmp_path)
    with pytest.raises(ValueError, match=reason):
        generate.read_grammar("train")


def test_every_slot_and_section_is_known(agents):
    slots = {"order", "amount", *generate.FILLERS}
    for split in ("train", "val"):
        grammar = generate.read_grammar(split)
        assert set(grammar.needs) == {agent["code"] for agent in agents} | {generate.NO_AGENT}
        lines = grammar.templates()
        assert {slot for line in lines for slot in re.findall(r"\{(\w*)\}", line)} <= slots
        assert all(re.fullmatch(r"([^\[\]|]|\[[^\[\]]+\])+", line) for line in lines)


def test_guidelines_name_every_agent_with_an_example(agents):
    text = (generate.HERE / "guidelines.md").read_text(encoding="utf-8")
    for agent in agents:
        row = next(line for line in text.splitlines() if line.startswith(f"| {agent['code']} | {agent['name']} |"))
        assert re.search(r'"[^"]{8,}"', row)


def jaccard(predicted: np.ndarray, truth: np.ndarray) -> float:
    union = (predicted | truth).sum(axis=1)
    return float(np.where(union == 0, 1.0, (predicted & truth).sum(axis=1) / np.maximum(union, 1)).mean())


def test_a_linear_classifier_finds_it_neither_trivial_nor_hopeless(splits):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union
    from sklearn.svm import LinearSVC

    truth = {split: np.zeros((len(rows), 10), dtype=bool) for split, rows in splits.items()}
    for split, rows in splits.items():
        for i, row in enumerate(rows):
            truth[split][i, row["required_agents"]] = True
    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    )
    x = {"train": features.fit_transform([row["text"] for row in splits["train"]])}
    x |= {split: features.transform([row["text"] for row in splits[split]]) for split in ("val", "test")}
    models = [LinearSVC(random_state=0).fit(x["train"], truth["train"][:, agent]) for agent in range(10)]
    margins = {split: np.stack([m.decision_function(x[split]) for m in models], axis=1) for split in ("val", "test")}
    level = max(np.linspace(-1, 1, 41), key=lambda t: jaccard(margins["val"] > t, truth["val"]))
    measured = jaccard(margins["test"] > level, truth["test"])
    constant = max(
        jaccard(np.isin(np.arange(10), chosen)[None].repeat(len(truth["test"]), axis=0), truth["test"])
        for size in (0, 1, 2)
        for chosen in itertools.combinations(range(10), size)
    )
    assert constant < 0.3
    assert 0.65 < measured < 0.9


class TestConversations:
    def test_sixty_with_two_hundred_turns_apart_from_one_another(self, talks):
        assert len({turn["conversation_id"] for turns in talks.values() for turn in turns}) == 60
        counts = [len(talks[split]) for split in SPLITS]
        assert sum(counts) >= 200
        readme = " ".join((generate.HERE / "README.md").read_text(encoding="utf-8").split())
        assert f"{sum(counts)} user turns, {counts[0]}, {counts[1]} and {counts[2]} in train, val and test" in readme
        openings = [
            turn["messages"][0]["content"] for turns in talks.values() for turn in turns if len(turn["messages"]) == 1
        ]
        assert len(set(map(group_key, openings))) == 60

    def test_follow_the_texts_in_each_file(self, folder, talks):
        for split in SPLITS:
            rows = generate.read_rows(folder / f"{split}.jsonl")
            assert rows[-len(talks[split]) :] == talks[split]

    def test_are_read_as_turns(self, folder, talks):
        found = read_folder(folder)
        turns = [example for example in found.examples if example.group]
        assert len(turns) == sum(map(len, talks.values()))
        assert {m.agents for example in turns for m in before(example.text) if m.role == "assistant"} >= {(0,), (9,)}

    def test_every_agent_and_no_agent_is_needed_in_training(self, talks):
        needed = Counter(agent for turn in talks["train"] for agent in turn["required_agents"])
        assert set(needed) == set(range(10))
        assert sum(not turn["required_agents"] for turn in talks["train"]) >= 10

    @pytest.mark.parametrize("line", ["? XX hello", "hello there you", "? BI"])
    def test_a_malformed_line_is_refused(self, tmp_path, monkeypatch, line):
        (tmp_path / "conversations").mkdir()
        (tmp_path / "conversations" / "val.txt").write_text(f"# comment\n{line}\n")
        (tmp_path / "agents.jsonl").write_text((generate.HERE / "agents.jsonl").read_text())
        monkeypatch.setattr(generate, "HERE", tmp_path)
        with pytest.raises(ValueError, match="line 2"):
            generate.read_turns("val")
