"""What a model was taught by, in words: its teacher, and the texts without labels that the fast scorer learnt from."""

from collections.abc import Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

#: Jaccard by which a student may fall behind what taught it without a word of warning: what a costlier scorer must bring to be chosen.
AS_GOOD = 0.01
#: What a report calls those that have taught; a teacher has the name of its folder.
TAUGHT_BY = {
    "n-grams": gettext_lazy("n-grams"),
    "sentence encoder": gettext_lazy("the sentence encoder"),
    "words in order": gettext_lazy("words in order"),
}


def taught_by(card: Mapping[str, Any]) -> list[str]:
    """Sentences for the model's page; none where no teacher and no text without a label had a part in it."""
    report = card.get("encoder", {})
    return [
        text
        for text in (_teacher(report.get("teacher")), _student(report.get("student")), _fast(report.get("fast")))
        if text
    ]


def _teacher(teacher: Mapping[str, Any] | None) -> str:
    if not teacher:
        return ""
    named = {"name": teacher["name"], "licence": teacher.get("licence") or _("licence not stated")}
    if "int8" not in teacher:
        return (
            _("The teacher %(name)s (%(licence)s) had no part: the pool has so many labels that one is not tried.")
            % named
        )
    if teacher.get("serves"):
        return (
            _("The teacher %(name)s (%(licence)s), fine-tuned on the labels, is one of the scorers that serve.") % named
        )
    return _("The teacher %(name)s (%(licence)s) was fine-tuned on the labels. No route needs it.") % named


def _fast(fast: Mapping[str, Any] | None) -> str:
    if not fast:
        return ""
    fewer = round(100 * fast["lead"]["mean"])
    if fewer <= 0:
        return _("A model trained with encoder: fast answers in a fraction of the time and gets as many queries right.")
    sentence = _(
        "A model trained with encoder: fast answers in a fraction of the time and gets %(n)d of 100 queries fewer right."
    )
    return sentence % {"n": fewer}


def _student(student: Mapping[str, Any] | None) -> str:
    if not student:
        return ""
    names = [str(TAUGHT_BY.get(name, name)) for name in student["taught_by"]]
    text = _("The fast scorer learnt from %(texts)s texts without labels what %(names)s make of them, and ") % {
        "texts": number_format(student["texts"], force_grouping=True),
        "names": ", ".join(names),
    }
    text += _("was kept.") if student.get("kept") else _("was not kept: the labels alone did as well.")
    beside = student.get("beside_teacher")
    if not beside:
        return text
    if beside["low"] > -AS_GOOD:
        verdict = _("it is no more than %(margin).2f behind") % {"margin": AS_GOOD}
    elif beside["high"] < 0:
        verdict = _("it is behind")
    else:
        verdict = _("too few labels to tell")
    sentence = _("Beside all that taught it: %(mean)+.3f Jaccard (%(low)+.3f to %(high)+.3f), %(verdict)s.")
    return f"{text} {sentence % {**beside, 'verdict': verdict}}"
