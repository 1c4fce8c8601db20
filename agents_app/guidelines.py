"""Labeling guidelines: Markdown that people write, as HTML that is safe to show."""

import markdown
import nh3
from django.utils.safestring import SafeString, mark_safe

TAGS = frozenset(
    "p br hr h1 h2 h3 h4 ul ol li strong em del code pre blockquote a table thead tbody tr th td".split()  # noqa: SIM905
)


def rendered(text: str) -> SafeString:
    """Markdown (with tables and fenced code) as HTML of a few harmless elements; scripts, styles and images fall away."""
    html = markdown.markdown(text, extensions=["tables", "fenced_code", "sane_lists", "nl2br"])
    clean = nh3.clean(
        html,
        tags=set(TAGS),
        attributes={"a": {"href", "title"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)  # noqa: S308  # a person's text, of which nh3 leaves TAGS and addresses of three kinds
