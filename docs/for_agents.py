"""`llms.txt`: what programs that read are given of the documentation, in the form of llmstxt.org."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: What begins no prose: headings, tables, lists, pictures, quotations, comments.
NO_PROSE = re.compile(r"[#|*!<>-]|\d+\.")


def llms_txt(name: str, description: str, nav: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> str:
    """A title, what the product is, and by the sections of the site's menu every page: its Markdown and how it begins.

    `nav` is mkdocs.yml's; `texts` are the pages as Markdown by their files' names. A page outside of all sections
    stands under Start.
    """
    sections: dict[str, list[str]] = {"Start": []}
    for section, title, page in pages(nav):
        sections.setdefault(section, []).append(
            f"- [{title}]({page}): {first_sentence(texts[page])}".removesuffix(": ")
        )
    return f"# {name}\n\n> {description}\n" + "".join(
        f"\n## {section}\n\n" + "\n".join(lines) + "\n" for section, lines in sections.items()
    )


def pages(nav: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(section, title, file) of each page of a menu of two levels."""
    for one in nav:
        for title, below in one.items():
            if isinstance(below, str):
                yield "Start", title, below
            else:
                yield from ((title, name, page) for part in below for name, page in part.items())


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph, without links; "" where a page has no prose."""
    for paragraph in re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).split("\n\n"):
        words = " ".join(paragraph.split())
        if words and not NO_PROSE.match(words):
            sentence = re.split(r"(?<=[.:!?]) (?=[A-Z`])", words)[0].removesuffix(":")
            return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return ""
