"""The exports of other tools: which one a record comes from, and what it says in our words.

Label Studio (JSON, JSON_MIN, CSV), Argilla (records nested or flat, and those of version 1), doccano, Prodigy. Nothing here knows the
pool's agents: labels stay as the tool has them. Exports of traces are read by `datasets_app.traces.exports`: their records are spans.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.files.names import NAMES as COLUMN_NAMES
from datasets_app.traces import exports
from datasets_app.traces.turns import Turn

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one person said: `by` names them as the file does, "" for nobody; `labels` as the tool has them, [] for none of them.
    `about`: the labels that were asked about, None for all."""

    by: str
    labels: Any
    about: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model said: its labels, and a probability for each, or one for all of them."""

    source: str
    labels: Any
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """One record: `values` by our columns beside other keys; `left_out` says why nothing of it is a label, "" for no reason. `turn`:
    what an export of traces says of it, with its place, and whether it came alone."""

    values: dict[str, Any]
    answers: tuple[Annotation, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    left_out: str = ""
    turn: tuple[Turn, str, bool] | None = None


def shape_of(records: Iterable[Values]) -> str:
    """The tool whose export these records are, "" for none."""
    some = list(records)[:50]
    detectors = {name: is_one for name, (is_one, _read) in (*exports.SHAPES.items(), *SHAPES.items())}
    return next((name for name, is_one in detectors.items() if some and any(map(is_one, some))), "")


def task(shape: str, values: Values) -> Task:
    """What one record of a tool's export says."""
    return SHAPES[shape][1](values)


_TEXTS = (
    "text",
    "query",
    "question",
    "message",
    "utterance",
    "prompt",
    "input",
    "body",
    "content",
    "ticket",
    "document",
)


def _text(data: Values) -> tuple[str, Any]:
    """The key and the value of the text among a task's data: by its name, else the longest."""
    by_name = {str(key).lower(): key for key in data}
    key = next((by_name[name] for name in _TEXTS if isinstance(data.get(by_name.get(name, "")), str)), None)
    if key is None:
        texts = [key for key, value in data.items() if isinstance(value, str)]
        key = max(texts, key=lambda name: len(data[name]), default="text")
    return str(key), data.get(key)


def _rest(data: Values, *omitted: str) -> dict[str, Any]:
    return {str(key): value for key, value in data.items() if key not in omitted and value not in (None, "", [], {})}


# ---------------------------------------------------------------------------------------------------- Label Studio

_OF_MIN = ("annotator", "annotation_id", "lead_time", "created_at", "updated_at", "id")


def _is_label_studio(values: Values) -> bool:
    return isinstance(values.get("data"), dict) and (
        "annotations" in values or "completions" in values or "predictions" in values
    )


def _label_studio(values: Values) -> Task:
    data = values["data"]
    name, text = _text(data)
    messages = data.get("messages") or data.get("dialogue") or data.get("conversation")
    row: dict[str, Any] = {"id": values.get("id"), **_rest(data, name)}
    if isinstance(messages, list):
        row["messages"] = messages
    else:
        row["text"] = text
    results = values.get("annotations") or values.get("completions") or []
    annotations = [result for result in results if isinstance(result, dict)]
    answers = tuple(
        Annotation(_person(annotation.get("completed_by")), _choices(annotation.get("result")))
        for annotation in annotations
        if not (annotation.get("was_cancelled") or annotation.get("skipped"))
    )
    predictions = tuple(
        _prediction(prediction)
        for prediction in values.get("predictions") or ()
        if isinstance(prediction, dict) and _has_choices(prediction.get("result"))
    )
    cancelled = "" if answers or not annotations else "its annotation was cancelled"
    return Task(row, answers, predictions, cancelled)


def _person(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("email") or value.get("username") or value.get("id") or "")
    return "" if value is None else str(value)


def _regions(result: Any) -> Iterator[tuple[Values, list[Any]]]:
    for region in result if isinstance(result, list) else ():
        value = region.get("value") if isinstance(region, dict) else None
        if isinstance(value, dict):
            for kind in ("choices", "taxonomy", "labels"):
                if isinstance(value.get(kind), list):
                    yield (
                        region,
                        [choice[-1] if isinstance(choice, list) and choice else choice for choice in value[kind]],
                    )


def _choices(result: Any) -> list[Any]:
    return list(
        dict.fromkeys(label for _region, labels in _regions(result) for label in labels if isinstance(label, str | int))
    )


def _has_choices(result: Any) -> bool:
    return any(True for _region in _regions(result))


def _prediction(prediction: Values) -> Prediction:
    scores: dict[str, float] = {}
    for region, labels in _regions(prediction.get("result")):
        score = region.get("score", prediction.get("score"))
        if isinstance(score, int | float) and not isinstance(score, bool):
            scores |= {str(label): float(score) for label in labels}
    return Prediction(
        str(prediction.get("model_version") or "Label Studio"), _choices(prediction.get("result")), scores
    )


def _is_label_studio_min(values: Values) -> bool:
    return "annotation_id" in values and "annotator" in values and "lead_time" in values


def _label_studio_min(values: Values) -> Task:
    data = {key: value for key, value in values.items() if key not in _OF_MIN}
    name, text = _text(data)
    labels = _label_column(data, name)
    row = {"id": values.get("id"), "text": text, **_rest(data, name, *([labels] if labels else []))}
    by = _person(values.get("annotator"))
    if not by and values.get("annotation_id") in (None, ""):
        return Task(row)
    return Task(row, (Annotation(by, data.get(labels) if labels else []),))


def _label_column(data: Values, text: str) -> str:
    """The control that holds the choices: an object of them, or a key that people call labels; of what is left the last."""
    others = [str(key) for key in data if key != text]
    for key in others:
        value = data[key]
        if (isinstance(value, dict) and ("choices" in value or "taxonomy" in value)) or (
            isinstance(value, str) and value.lstrip().startswith('{"choices"')
        ):
            return key
    return next(
        (key for key in others if key.lower() in (*COLUMN_NAMES["required_agents"], "choice", "choices", "sentiment")),
        "",
    )


# ---------------------------------------------------------------------------------------------------- Argilla


def _is_argilla(values: Values) -> bool:
    nested = isinstance(values.get("fields"), dict) and ("responses" in values or "suggestions" in values)
    return nested or any(str(key).endswith((".responses", ".suggestion")) for key in values)


def _argilla(values: Values) -> Task:
    if isinstance(values.get("fields"), dict):
        return _argilla_nested(values)
    questions = [str(key).rpartition(".")[0] for key in values if str(key).endswith((".responses", ".suggestion"))]
    question = next(iter(dict.fromkeys(questions)), "")
    plain = {
        key: value
        for key, value in values.items()
        if not any(str(key).startswith(f"{question}.") for question in questions)
    }
    name, text = _text({key: value for key, value in plain.items() if key not in ("id", "status", "_server_id")})
    row = {"id": plain.get("id"), "text": text, **_rest(plain, name, "id", "status", "_server_id")}
    people = values.get(f"{question}.responses.users") or []
    states = values.get(f"{question}.responses.status") or []
    labels = values.get(f"{question}.responses") or []
    answers, discarded = [], False
    for place, value in enumerate(labels):
        if place < len(states) and states[place] not in (None, "submitted"):
            discarded = True
            continue
        answers.append(Annotation(str(people[place]) if place < len(people) else "", _listed(value)))
    suggested = values.get(f"{question}.suggestion")
    predictions: tuple[Prediction, ...] = ()
    if suggested is not None:
        source, score = values.get(f"{question}.suggestion.agent"), values.get(f"{question}.suggestion.score")
        predictions = (Prediction(str(source or "Argilla"), _listed(suggested), _scores(suggested, score)),)
    return Task(row, tuple(answers), predictions, "its response was discarded" if discarded and not answers else "")


def _argilla_nested(values: Values) -> Task:
    name, text = _text(values["fields"])
    fields = _rest(values["fields"], name)
    row: dict[str, Any] = {"id": values.get("id"), "text": text, **fields, **_rest(values.get("metadata") or {})}
    if isinstance(text, list) or isinstance(values["fields"].get("chat"), list):
        row |= {"messages": values["fields"].get("chat") or text, "text": None}
    answers, discarded = [], False
    for responses in _by_question(values.get("responses")).values():
        for response in responses if isinstance(responses, list) else ():
            if response.get("status") not in (None, "submitted"):
                discarded = True
                continue
            answers.append(
                Annotation(
                    str(response.get("user_id") or response.get("username") or ""), _listed(response.get("value"))
                )
            )
        break  # of several questions the first
    predictions = []
    listed = values.get("suggestions") or {}
    suggestions = {one.get("question_name"): one for one in listed} if isinstance(listed, list) else listed
    for suggestion in suggestions.values():
        if isinstance(suggestion, dict) and suggestion.get("value") is not None:
            source = str(suggestion.get("agent") or "Argilla")
            predictions.append(
                Prediction(source, _listed(suggestion["value"]), _scores(suggestion["value"], suggestion.get("score")))
            )
        break
    return Task(
        row, tuple(answers), tuple(predictions), "its response was discarded" if discarded and not answers else ""
    )


def _by_question(responses: Any) -> dict[str, Any]:
    """Responses as Argilla 2 has them, by question; before, each person's stood together: {"user_id", "status", "values": {question:
    {"value"}}}."""
    if not isinstance(responses, list):
        return responses or {}
    by_question: dict[str, Any] = {}
    for response in responses:
        for question, answer in (response.get("values") or {}).items():
            by_question.setdefault(question, []).append({**response, "value": answer.get("value")})
    return by_question


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _scores(value: Any, score: Any) -> dict[str, float]:
    labels = _listed(value)
    each = score if isinstance(score, list) else [score] * len(labels)
    return {
        str(label): float(score) for label, score in zip(labels, each, strict=False) if isinstance(score, int | float)
    }


def _is_argilla_1(values: Values) -> bool:
    return "annotation_agent" in values or "prediction_agent" in values


def _argilla_1(values: Values) -> Task:
    inputs = values.get("inputs")
    name, text = ("", values["text"]) if values.get("text") else _text(inputs if isinstance(inputs, dict) else {})
    more = inputs if isinstance(inputs, dict) and not values.get("text") else {}
    row = {"id": values.get("id"), "text": text, **_rest(values.get("metadata") or {}), **_rest(more, name)}
    predictions: tuple[Prediction, ...] = ()
    if values.get("prediction"):
        scored = [
            prediction if isinstance(prediction, list) else [prediction.get("label"), prediction.get("score")]
            for prediction in values["prediction"]
        ]
        scores = {str(label): float(score) for label, score in scored if isinstance(score, int | float)}
        best = [label for label, score in scores.items() if score >= 0.5] or [
            max(scores, key=lambda label: scores[label])
        ]
        predictions = (Prediction(str(values.get("prediction_agent") or "Argilla"), best, scores),)
    if str(values.get("status", "")).lower() == "discarded":
        return Task(row, (), predictions, "it was discarded")
    if values.get("annotation") is None:
        return Task(row, (), predictions)
    return Task(
        row, (Annotation(str(values.get("annotation_agent") or ""), _listed(values["annotation"])),), predictions
    )


# ---------------------------------------------------------------------------------------------------- doccano, Prodigy


def _is_doccano(values: Values) -> bool:
    return (
        ("text" in values or "data" in values)
        and isinstance(values.get("label"), list)
        and (
            "Comments" in values
            or "comments" in values
            or set(values) <= {"id", "text", "data", "label", "__file__", "meta"}
        )
    )


def _doccano(values: Values) -> Task:
    text = values.get("text", values.get("data"))
    row = {
        "id": values.get("id"),
        "text": text,
        **_rest(values, "id", "text", "data", "label", "Comments", "comments", "__file__"),
    }
    labels = [label[-1] if isinstance(label, list) and label else label for label in values["label"]]
    # An export of each annotator is a file named after them; the file of all is named “all” or “admin”.
    by = str(values.get("__file__") or "")
    person = "" if by.lower() in ("", "all", "admin", "unknown", "train", "val", "test") else by
    # doccano writes [] for a text that nobody has looked at too: whether it says "none" is the reader's choice.
    return Task(row, (Annotation(person, labels or ""),))


def _is_prodigy(values: Values) -> bool:
    return (
        "answer" in values
        and "text" in values
        and ("_input_hash" in values or "accept" in values or "_task_hash" in values)
    )


def _prodigy(values: Values) -> Task:
    known_columns = ("text", "answer", "options", "accept", "label", "meta", "config")
    more = {key: value for key, value in _rest(values, *known_columns).items() if not key.startswith("_")}
    row: dict[str, Any] = {"text": values.get("text"), **more, **_rest(values.get("meta") or {}, "score")}
    by = str(values.get("_annotator_id") or values.get("_session_id") or "")
    if values.get("answer") != "accept" and ("accept" in values or "label" not in values):
        return Task(row, (), (), f"its answer was “{values.get('answer')}”")
    if "accept" in values:
        named = {
            option.get("id"): option.get("text") for option in values.get("options") or () if isinstance(option, dict)
        }
        return Task(row, (Annotation(by, [named.get(option) or option for option in values["accept"]]),))
    if values.get("answer") == "ignore":
        return Task(row, (), (), "its answer was “ignore”")
    label = str(values["label"])
    score = (values.get("meta") or {}).get("score")
    predictions = (Prediction("Prodigy", [label], {label: float(score)}),) if isinstance(score, int | float) else ()
    return Task(row, (Annotation(by, [label] if values["answer"] == "accept" else [], (label,)),), predictions)


SHAPES: dict[str, tuple[Callable[[Values], bool], Callable[[Values], Task]]] = {
    "label_studio": (_is_label_studio, _label_studio),
    "label_studio_min": (_is_label_studio_min, _label_studio_min),
    "argilla": (_is_argilla, _argilla),
    "argilla_1": (_is_argilla_1, _argilla_1),
    "prodigy": (_is_prodigy, _prodigy),
    "doccano": (_is_doccano, _doccano),
}
NAMES = {
    "label_studio": "Label Studio",
    "label_studio_min": "Label Studio",
    "argilla": "Argilla",
    "argilla_1": "Argilla",
    "prodigy": "Prodigy",
    "doccano": "doccano",
    **exports.NAMES,
}
