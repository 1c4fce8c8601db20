"""What people type runs in the direction of its own script: a field of text says so, as no page knows the language of its queries."""

import re
from pathlib import Path

import pytest
from django.conf import settings

TEXTS = re.compile(r"<textarea (?:\{%.*?%\}|\{\{.*?\}\}|[^>])*>")
SEARCHES = re.compile(
    r'<input (?=[^>]*(?:name="note"|id="q"|id="lb-filter"|id="lb-remark"))(?:\{%.*?%\}|\{\{.*?\}\}|[^>])*>'
)


@pytest.mark.parametrize("folder", ["agents_app", "datasets_app", "training_app", "orchestration_app"])
def test_a_field_of_text_takes_the_direction_of_what_is_typed(folder: str) -> None:
    for template in (Path(settings.BASE_DIR) / "templates" / folder).glob("*.html"):
        for field in (pattern for each in (TEXTS, SEARCHES) for pattern in each.findall(template.read_text())):
            if (
                " hidden" not in field
                and 'type="hidden"' not in field
                and "rw-mono" not in field
                and "readonly" not in field
            ):
                assert 'dir="auto"' in field, f"{template.name}: {field[:80]}"


def test_a_query_stands_in_the_direction_of_its_script() -> None:
    queries = re.compile(r'<(?:p|blockquote) class="rw-query-text[^>]*>(?=\{\{)')
    shown = [
        (template.name, found)
        for template in (Path(settings.BASE_DIR) / "templates").glob("*/*.html")
        for found in queries.findall(template.read_text())
    ]
    assert shown
    assert [one for one in shown if 'dir="auto"' not in one[1]] == []
