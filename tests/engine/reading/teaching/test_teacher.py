"""A teacher: an encoder from a folder, fine-tuned on labels, exported, served without torch; and folders that are refused."""

import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import torch

from tests.engine.reading.teaching.tiny_teacher import WIDTH, make_teacher
from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config, ConfigError
from training_app.engine.data.artifact import FILES, tensor_bytes, tensors_from
from training_app.engine.data.examples import group_key
from training_app.engine.data.rows import rows_of
from training_app.engine.reading import encoders
from training_app.engine.reading.beside import Beside
from training_app.engine.reading.encoders import fit_encoder
from training_app.engine.reading.fused_fit import described
from training_app.engine.reading.scorers import CrossFit, cross_fit, load_scorer
from training_app.engine.reading.stacking import settled
from training_app.engine.reading.teaching import coaching, teacher, teacher_fit
from training_app.engine.reading.teaching.teacher import ELSEWHERE, TeacherError, TeacherMargins
from training_app.engine.reading.teaching.teacher_fit import TeacherScorer
from training_app.engine.reading.teaching.teacher_folder import teacher_folder
from training_app.engine.routing.router import Router
from training_app.engine.train import train

ROWS = rows_of(examples(60), AGENTS)
UPDATES = teacher_fit.updates


@pytest.fixture(scope="module", autouse=True)
def _briefly() -> Iterator[None]:
    """A few updates: what is tested is not how much is learnt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teacher_fit, "updates", lambda rows: 12)
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_teacher(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def fitted(tiny: Path) -> TeacherMargins:
    return TeacherScorer(teacher_folder(str(tiny))).fit(ROWS.texts, ROWS.required, ROWS.asked, seed=0)


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(tiny, tmp_path / "teacher"))


@pytest.mark.at_length
def test_a_folder_says_what_it_is(tiny: Path) -> None:
    found = teacher_folder(str(tiny))
    assert (found.name, found.pooling, found.tokens, found.licence) == ("tiny", "mean", 32, "apache-2.0")
    assert len(found.sha256) == 64


@pytest.mark.at_length
def test_fine_tuning_learns_the_labels(tiny: Path, fitted: TeacherMargins, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(scorer: TeacherMargins) -> float:
        return float(np.logaddexp(0, np.where(ROWS.required, -1, 1) * scorer.logits(ROWS.texts)).mean())

    monkeypatch.setattr(teacher_fit, "RATE", 5e-3)  # random weights have more to learn than trained ones
    monkeypatch.setattr(teacher_fit, "updates", lambda rows: 120)
    taught = TeacherScorer(teacher_folder(str(tiny))).fit(ROWS.texts, ROWS.required, ROWS.asked, seed=0)
    assert loss(taught) < 0.9 * loss(fitted)


@pytest.mark.at_length
def test_the_same_rows_and_seed_give_the_same_teacher(tiny: Path, fitted: TeacherMargins) -> None:
    again = TeacherScorer(teacher_folder(str(tiny))).fit(ROWS.texts, ROWS.required, ROWS.asked, seed=0)
    assert tensor_bytes(again.tensors()) == tensor_bytes(fitted.tensors())


@pytest.mark.at_length
def test_what_an_agent_was_not_asked_teaches_nothing(tiny: Path, fitted: TeacherMargins) -> None:
    asked = ROWS.asked.copy()
    asked[::2, 0] = False
    other = ROWS.required.copy()
    other[::2, 0] = ~other[::2, 0]
    scorer = TeacherScorer(teacher_folder(str(tiny)))
    one, two = (scorer.fit(ROWS.texts, y, asked, seed=0) for y in (ROWS.required, other))
    assert np.array_equal(one.logits(ROWS.texts), two.logits(ROWS.texts))
    assert not np.array_equal(one.logits(ROWS.texts), fitted.logits(ROWS.texts))


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.at_length
def test_the_graph_gives_torchs_vectors(tmp_path: Path, pooling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_teacher(tmp_path / "teacher", pooling=pooling)
    monkeypatch.setattr(teacher_fit, "LIKE", 2.0)  # no int8
    kept = []
    graph = teacher_fit._graph
    monkeypatch.setattr(
        teacher_fit, "_graph", lambda encoder, probes: (kept.append(encoder), graph(encoder, probes))[1]
    )
    scorer = TeacherScorer(teacher_folder(str(place)), described(AGENTS))
    served = scorer.fit(ROWS.texts, ROWS.required, ROWS.asked, seed=1)
    assert served.about["int8"] is False
    tokenizer, _ = served._loaded()
    texts = [*ROWS.texts[:20], "", "zzz qqq", "billing " * 100]
    ids, mask = teacher_fit._padded([tokenizer.encode(text).ids for text in texts], 0)
    with torch.no_grad():
        vectors = kept[0](ids, mask).numpy()
    assert ids.shape[1] == 32
    assert np.allclose(served.vectors(texts), vectors, atol=1e-4)
    assert np.allclose(served.logits(texts), vectors @ served.weights + served.bias, atol=1e-3)


def test_int8_is_taken_where_its_vectors_are_like_the_full_ones(fitted: TeacherMargins) -> None:
    assert fitted.about["int8"] is True
    assert fitted.about["bytes"] == len(fitted.graph)


def test_a_text_in_a_batch_is_answered_as_alone(fitted: TeacherMargins) -> None:
    texts = ["refund my order", "", "a \ud800 half pair", "x" * 20_000, "\u041f\u0440\u0438\u0432\u0435\u0442"]
    together = fitted.logits(texts)
    assert together.shape == (5, len(AGENTS))
    assert np.isfinite(together).all()
    for row, text in enumerate(texts):
        assert np.array_equal(fitted.logits([text])[0], together[row])


def test_it_comes_back_from_its_arrays(fitted: TeacherMargins) -> None:
    tensors = tensors_from(tensor_bytes(fitted.tensors()))
    again = load_scorer("teacher", json.loads(json.dumps(fitted.config())), tensors)
    assert np.array_equal(again.logits(ROWS.texts), fitted.logits(ROWS.texts))
    assert again.explain("anything") == [[]] * len(AGENTS)


def test_a_graph_that_reads_other_files_is_refused(fitted: TeacherMargins) -> None:
    graph = np.frombuffer(fitted.graph.tobytes() + ELSEWHERE + b"\x0b/etc/passwd", np.uint8)
    with pytest.raises(ValueError, match="other files"):
        load_scorer("teacher", fitted.config(), {**fitted.tensors(), "graph": graph})


def test_arrays_that_do_not_fit_are_refused(fitted: TeacherMargins) -> None:
    with pytest.raises(ValueError, match="lacks 'bias'"):
        load_scorer("teacher", fitted.config(), {k: v for k, v in fitted.tensors().items() if k != "bias"})
    with pytest.raises(ValueError, match="for 4 agents"):
        load_scorer("teacher", fitted.config(), {**fitted.tensors(), "weights": fitted.weights[:, :2]})
    broken = load_scorer("teacher", fitted.config(), {**fitted.tensors(), "graph": np.zeros(9, np.uint8)})
    with pytest.raises(TeacherError, match="graph cannot be read"):
        broken.logits(["x"])


def test_without_what_serves_it_a_model_says_what_to_install(
    fitted: TeacherMargins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_app.engine.reading.teaching.teacher.find_spec", lambda name: None)
    with pytest.raises(TeacherError, match=r"requirements-teacher\.txt"):
        load_scorer("teacher", fitted.config(), fitted.tensors())


def test_without_transformers_a_run_says_what_to_install(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"^teacher: needs the package transformers: install requirements-teacher"):
        TeacherScorer(teacher_folder(str(tiny))).fit(ROWS.texts, ROWS.required, ROWS.asked, seed=0)


def test_a_run_asks_for_packages_and_folder_before_it_fits_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "choose_linear", lambda *_, **__: pytest.fail("fitted first"))
    rows, config = ROWS, Config.from_mapping({"teacher": "/nowhere"})
    groups = [group_key(text) for text in rows.texts]
    with pytest.raises(ConfigError, match=r"^teacher: /nowhere is not a folder"):
        fit_encoder(config, rows, groups, rows, agents=AGENTS, progress=lambda *_: None)
    monkeypatch.setattr(teacher, "find_spec", lambda name: None if name.startswith("onnx") else object())
    with pytest.raises(
        ConfigError, match=r"^teacher: needs the packages onnxruntime, onnx: install requirements-teacher"
    ):
        fit_encoder(config, rows, groups, rows, agents=AGENTS, progress=lambda *_: None)


def test_a_teacher_joins_encoder_auto_only() -> None:
    with pytest.raises(ConfigError, match=r"^teacher: joins encoder: auto"):
        Config.from_mapping({"teacher": "/nowhere", "encoder": "linear"})


def test_serving_imports_no_torch(fitted: TeacherMargins, tmp_path: Path) -> None:
    (tmp_path / "t.safetensors").write_bytes(tensor_bytes(fitted.tensors()))
    (tmp_path / "c.json").write_text(json.dumps(fitted.config()))
    code = (
        "import json, sys; from pathlib import Path\n"
        "from training_app.engine.data.artifact import tensors_from\n"
        "from training_app.engine.reading.scorers import load_scorer\n"
        "place = Path(sys.argv[1])\n"
        "s = load_scorer('teacher', json.loads((place / 'c.json').read_text()),"
        " tensors_from((place / 't.safetensors').read_bytes()))\n"
        "s.logits(['refund'])\n"
        "print([m for m in ('torch', 'transformers', 'onnx', 'sklearn', 'scipy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "config.json").unlink(), "holds no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda f: (f / "config.json").write_text("{}"), "names no model_type"),
        (lambda f: (f / "tokenizer.json").unlink(), "holds no tokenizer.json"),
        (lambda f: (f / "model.safetensors").unlink(), "holds no model.safetensors"),
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "a pickle, which can run code"),
        (lambda f: (f / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}'), "pools in a way"),
        (lambda f: (f / "modules.json").write_text('[{"type": "x.Dense", "path": "2"}]'), "the module Dense"),
        (
            lambda f: (f / "modules.json").write_text('[{"type": "x.Pooling", "path": "../../elsewhere"}]'),
            "outside the folder",
        ),
        (
            lambda f: (f / "config.json").write_text('{"model_type": "bert", "auto_map": {"AutoModel": "evil.Model"}}'),
            "code of its own",
        ),
    ],
)
def test_a_folder_that_is_not_one_is_refused(folder: Path, spoil: object, said: str) -> None:
    spoil(folder)  # type: ignore[operator]
    with pytest.raises(ConfigError, match=said) as refused:
        teacher_folder(str(folder))
    assert refused.value.field == "teacher"


@pytest.mark.parametrize("given", ["/nowhere/at/all", "../x", "one", "a/b/c"])
def test_what_is_neither_folder_nor_name_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="not a folder, nor a name"):
        teacher_folder(given)


def test_a_name_is_not_fetched_where_that_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE forbids"):
        teacher_folder("some-maker/some-encoder")


def test_a_pickle_under_the_name_of_safetensors_is_never_opened(folder: Path, tmp_path: Path) -> None:
    """The file would make another one, were it ever unpickled."""
    made = tmp_path / "ran"
    pickled = b"cos\nsystem\n(S'touch " + str(made).encode() + b"'\ntR."
    (folder / "model.safetensors").write_bytes(pickled)
    with pytest.raises(ConfigError, match=r"^teacher: .* cannot be read"):
        TeacherScorer(teacher_folder(str(folder))).fit(ROWS.texts, ROWS.required, ROWS.asked, seed=0)
    assert not made.exists()


@pytest.mark.at_length
def test_the_fits_of_a_cross_fitted_teacher_teach_the_student(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [group_key(text) for text in ROWS.texts]
    tuned = TeacherScorer(teacher_folder(str(tiny)))
    coach = coaching.Coach(tuned, cross_fit(tuned, ROWS, groups, seed=0), ROWS)
    monkeypatch.setattr(tuned, "_fit", lambda *_: pytest.fail("trained twice"))
    inside: list[int] = []

    class Learns(TeacherScorer):
        def fit(self, texts, Y, asked, *, seed, progress=None):  # type: ignore[no-untyped-def]
            within = coach.within(encoders.Rows(list(texts), Y, asked), seed)
            inside.append(len(within.margins))
            return within.fitted

    cross_fit(Learns(tuned.folder), ROWS, groups, seed=0)
    assert len(inside) == 4
    assert inside[3] == len(ROWS.texts)


@pytest.mark.at_length
def test_a_run_with_a_teacher_says_what_taught_it(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1_000)
    rows, val = (rows_of([e for e in examples(80) if e.split == s], AGENTS) for s in ("train", "val"))
    groups = [group_key(text) for text in rows.texts]
    texts = [e.text for e in examples(200, seed=5)]
    settings = {"folds": 3, "svm_c": 1.0, "sentences": False, "teacher": str(tiny), "teacher_serves": False}
    fit, report = fit_encoder(
        Config.from_mapping(settings), rows, groups, val, agents=AGENTS, beside=Beside(texts), progress=lambda *_: None
    )
    assert report["teacher"]["name"] == "tiny"
    assert report["teacher"]["serves"] is False
    assert "teacher" in report["comparison"]
    assert report["student"]["taught_by"] == ["n-grams", "tiny"]
    assert {"mean", "low", "high"} <= set(report["student"]["beside_teacher"])
    assert "teacher" not in [child.kind for child in getattr(fit.fitted, "children", (fit.fitted,))]


@pytest.mark.at_length
def test_a_teacher_joins_the_stack_that_auto_makes(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1_000)
    monkeypatch.setattr(encoders, "_chosen", lambda fits, *_: (list(fits)[-1], {name: {} for name in fits}))
    rows, val = (rows_of([e for e in examples(80) if e.split == s], AGENTS) for s in ("train", "val"))
    groups = [group_key(text) for text in rows.texts]
    config = Config.from_mapping({"folds": 3, "svm_c": 1.0, "sentences": False, "teacher": str(tiny)})
    fit, report = fit_encoder(config, rows, groups, val, agents=AGENTS, progress=lambda *_: None)
    assert report["encoder"] == "teacher"
    assert report["teacher"]["serves"] is True
    assert [fit.fitted.kind, fit.fitted.child.kind] == ["tidied", "stack"]  # type: ignore[attr-defined]
    again = load_scorer("tidied", fit.fitted.config(), tensors_from(tensor_bytes(fit.fitted.tensors())))
    assert np.array_equal(again.logits(val.texts), fit.fitted.logits(val.texts))


@pytest.mark.at_length
def test_precedents_join_the_teachers_stack(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1_000)
    monkeypatch.setattr(encoders, "PRECEDENT_ROWS", 1)
    stacks: list[list[str]] = []

    def told(fits: list[CrossFit], *rest: Any) -> CrossFit:
        stacks.append([fit.fitted.kind for fit in fits])
        return settled(fits, *rest)

    monkeypatch.setattr(encoders, "settled", told)
    rows, val = (rows_of([e for e in examples(80) if e.split == s], AGENTS) for s in ("train", "val"))
    groups = [group_key(text) for text in rows.texts]
    config = Config.from_mapping({"folds": 3, "svm_c": 1.0, "teacher": str(tiny)})
    fit_encoder(config, rows, groups, val, agents=AGENTS, progress=lambda *_: None)
    assert stacks[-1][-2:] == ["precedents", "teacher"]


def test_an_architecture_without_layers_learns_all_but_its_words(tiny: Path) -> None:
    encoder = teacher_fit._encoder(teacher_folder(str(tiny)))
    learns = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert any("layer.1." in name for name in learns)
    assert not any("layer.0." in name or "embed" in name for name in learns)
    encoder.transformer.config.num_hidden_layers = 99
    for p in encoder.parameters():
        p.requires_grad_(True)
    teacher_fit._freeze(encoder.transformer)
    assert [n for n, p in encoder.named_parameters() if not p.requires_grad] == [
        "transformer.embeddings.word_embeddings.weight"
    ]
    assert encoder.transformer.config.hidden_size == WIDTH


def test_updates_grow_with_the_rows_and_end_somewhere() -> None:
    assert [UPDATES(rows) for rows in (16, 80, 400, 1_000, 15_000)] == [40, 200, 240, 504, 2_000]


@pytest.mark.at_length
def test_a_run_makes_an_artifact_that_routes_with_its_teacher(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1_000)
    monkeypatch.setattr(encoders, "_chosen", lambda fits, *_: (list(fits)[-1], {name: {} for name in fits}))
    settings = {"folds": 3, "svm_c": 1.0, "sentences": False, "teacher": str(tiny), "total_steps": 20}
    config = Config.from_mapping({**settings, "baselines": False})
    results = [progress.result for progress in train(config, AGENTS, examples(90))]
    result = next(r for r in results if r is not None)
    assert result.scorecard["encoder"]["teacher"]["licence"] == "apache-2.0"
    router = Router.load(result.artifact)
    text = examples(1)[0].text
    assert router.route(text).agents == router.route_batch([text, "quite another"])[0].agents
    assert router.explain(text).route.agents == router.route(text).agents
    with zipfile.ZipFile(io.BytesIO(result.artifact)) as archive:
        assert set(archive.namelist()) == {"manifest.json", *FILES}
