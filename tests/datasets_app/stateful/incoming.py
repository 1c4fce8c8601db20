"""What comes in: rows of files, and labels of an LLM."""

import io
import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from datasets_app.files import imports
from datasets_app.labeling import queue
from datasets_app.labels import disagreement, labels
from datasets_app.models import (
    Label,
    Query,
)
from tests.datasets_app.stateful import reference as ref
from tests.datasets_app.stateful.drawn import TEXTS
from tests.datasets_app.stateful.steps import Steps


class Incoming(Steps):
    """Each method is one step, done to the product and to the reference."""

    @initialize(rows=st.lists(st.integers(0, len(TEXTS) - 1), min_size=2, max_size=4))
    def begin(self, rows: list[int]) -> None:
        self.bring([(text, None, None, "") for text in rows], 0, "")

    def bring(self, rows: list[Any], dataset: int, split: str) -> None:
        time = self.step("import")
        lines, wanted = [], {}
        for text, required, asked, own in rows:
            line: dict[str, Any] = {"text": TEXTS[text][0]}
            required = None if required is None else self.known(required)
            asked = None if asked is None or required is None else self.known(asked) | required
            if required is not None:
                line["required_agents"] = sorted(required)
                if asked:
                    line["asked_agents"] = sorted(asked)
            if own:
                line["split"] = own
            lines.append((line, TEXTS[text], required, asked or None, own or split))
            wanted.setdefault(TEXTS[text][1], []).append(own or split)
        content = "\n".join(json.dumps(line) for line, *_rest in lines).encode()
        upload = imports.read_file(self.datasets[dataset], io.BytesIO(content), "jsonl", split=split)
        assert upload.status == "done"
        queue.fill(self.pool, everything=True)
        for group, splits in wanted.items():
            self.ref.splits[group] = self.ref.splits.get(group) or next(filter(None, splits), "")
        stored = {(one.dataset_id, one.text): one for one in Query.objects.filter(erased_at__isnull=True)}
        created, labeled = [], []
        for _line, (text, group), required, asked, _split in lines:
            query = next(
                (one for one in self.ref.queries.values() if one.dataset == dataset and one.text == text), None
            )
            if query is None:
                row = stored[self.datasets[dataset].pk, text]
                query = self.ref.queries[row.pk] = ref.Query(row.pk, dataset, text, group)
                created.append(query)
            if query.deleted or required is None or self.ref.standing(query, ("import", "")):
                continue
            label = Label.objects.current().get(query=query.key, source="import")
            assert frozenset(label.required) == required
            assert frozenset(label.asked) == (asked or frozenset(self.ref.active) | required)
            said = self.add(query, label, ("import", ""), time)
            labeled.append((query, said))
        for query, said in labeled:
            self.ref.close_by(query, said, untaken=True)
        for query in created:
            query.items[None] = ref.Item(wanted=self.ref.state(query) != "gold")

    def llm_says(self, place: int, required: frozenset[int], asked: frozenset[int], fallback: bool) -> None:
        query = self.pick(place)
        asked = self.known(asked | required)
        if query is None or not asked:
            return
        time = self.step("llm")
        said = {"fallback": "keyword"} if fallback else {}
        new = labels.NewLabel(query.key, "llm", required & asked, asked, provenance=said)
        label = labels.record_many([new])[0]
        disagreement.measure([query.key])
        self.add(query, label, ("llm", ""), time, fallback=fallback)
