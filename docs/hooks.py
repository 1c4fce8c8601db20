"""What MkDocs is told beyond mkdocs.yml: pages of the site whose files stand elsewhere in the repository, and links to them.

Files link to one another as they lie in the repository, so that they can be read there; on the site the same links lead to its pages.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import for_agents
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
#: Files outside of docs → their pages.
PAGES = {
    "README.md": "index.md",
    "client/README.md": "client.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "datasets_app/demo/README.md": "demo.md",
    "build/docs/api-reference.md": "api-reference.md",
}
EXAMPLES = ("examples/orchestrate_plain.py", "examples/orchestrate_graph.py")
#: The text of each page of the site, by its file's name.
TEXTS: dict[str, str] = {}
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages whose files stand elsewhere."""
    for place, name in PAGES.items():
        text = (ROOT / place).read_text("utf-8")
        if not place.startswith("build/"):
            text = _linked(text, posixpath.dirname(place))
        files.append(File.generated(config, name, content=text))
    shown = [
        "# Examples",
        *(f"## {Path(example).stem}\n\n```python\n{(ROOT / example).read_text('utf-8')}```" for example in EXAMPLES),
    ]
    files.append(File.generated(config, "examples.md", content="\n\n".join(shown)))
    return files


def on_page_markdown(markdown: str, page: Any, **_more: Any) -> str:
    """A page of docs with its links to files outside of docs as links to pages."""
    text = markdown if page.file.generated_by else _linked(markdown, "docs")
    TEXTS[page.file.src_uri] = text
    return text


def on_post_build(config: Any, **_more: Any) -> None:
    """Beside the pages the same as Markdown, and `llms.txt`, which lists them."""
    site = Path(config.site_dir)
    for name, text in TEXTS.items():
        (site / name).write_text(text, "utf-8")
    (site / "llms.txt").write_text(
        for_agents.llms_txt(config.site_name, config.site_description, config.nav, TEXTS), "utf-8"
    )


def _linked(text: str, folder: str) -> str:
    """The text of a file in that folder of the repository, its links leading to pages; what has none is told without a link."""

    def link(match: re.Match[str]) -> str:
        target, anchor = posixpath.normpath(posixpath.join(folder, match[1])), match[2] or ""
        if target in PAGES:
            return f"]({PAGES[target]}{anchor})"
        if target in EXAMPLES:
            return f"](examples.md#{Path(target).stem})"
        if target.startswith("docs/"):
            return f"]({target.removeprefix('docs/')}{anchor})"
        return "](index.md)"

    return LINK.sub(link, text)
