"""What a model's page says of what taught it."""

import pytest

from training_app.versions import teaching

TEACHER = {"name": "MiniLM", "sha256": "53aa", "licence": "apache-2.0", "int8": True, "bytes": 1}
STUDENT = {"texts": 15000, "taught_by": ["n-grams", "words in order", "MiniLM"], "kept": True}


def test_a_teacher_serves_or_only_teaches() -> None:
    (serves,) = teaching.taught_by({"encoder": {"teacher": {**TEACHER, "serves": True}}})
    assert serves == "The teacher MiniLM (apache-2.0), fine-tuned on the labels, is one of the scorers that serve."
    (taught,) = teaching.taught_by({"encoder": {"teacher": {**TEACHER, "licence": "", "serves": False}}})
    assert taught == "The teacher MiniLM (licence not stated) was fine-tuned on the labels. No route needs it."
    (idle,) = teaching.taught_by({"encoder": {"teacher": {"name": "MiniLM", "licence": "mit"}}})
    assert "had no part" in idle


def test_a_student_is_named_with_those_who_taught_it() -> None:
    (text,) = teaching.taught_by({"encoder": {"student": STUDENT}})
    assert "15,000 texts without labels what n-grams, words in order, MiniLM make of them, and was kept." in text
    (text,) = teaching.taught_by({"encoder": {"student": {**STUDENT, "kept": False}}})
    assert "was not kept" in text


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.009, 0.01, "it is no more than 0.01 behind"),
        (-0.03, -0.001, "it is behind"),
        (-0.03, 0.01, "too few labels to tell"),
    ],
)
def test_a_student_is_judged_beside_what_taught_it(low: float, high: float, said: str) -> None:
    beside = {"scorer": "teacher", "mean": (low + high) / 2, "low": low, "high": high}
    (text,) = teaching.taught_by({"encoder": {"student": {**STUDENT, "beside_teacher": beside}}})
    assert said in text
    assert f"({low:+.3f} to " in text


def test_without_either_it_says_nothing() -> None:
    assert teaching.taught_by({}) == []
    assert teaching.taught_by({"encoder": {"encoder": "stack"}}) == []
