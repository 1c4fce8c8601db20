"""`python -m routerweb.catalogs`: the translations of locale/*/LC_MESSAGES/django.po, compiled to the .mo files that Django reads.

In Python, so that no machine needs GNU gettext. The .mo files are kept beside their sources, and a test holds them to be current.
"""

import ast
import struct
from pathlib import Path

LOCALE = Path(__file__).resolve().parent.parent / "locale"
_MAGIC = 0x950412DE


def read(text: str) -> dict[str, str]:
    """msgid → msgstr of a .po file, as a .mo file has them: plural forms joined by NUL. Raises ValueError with the line at fault."""
    texts: dict[str, str] = {}
    entry: dict[str, str] = {}
    field = ""
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        line = line.strip()
        if line.startswith("#"):
            continue
        if line.startswith('"'):
            entry[field] += ast.literal_eval(line)
            continue
        if entry and (not line or line.startswith("msgid ")):
            forms = [entry[name] for name in sorted(entry) if name.startswith("msgstr")]
            key = "\0".join([entry["msgid"], *([entry["msgid_plural"]] if "msgid_plural" in entry else [])])
            if key in texts:
                raise ValueError(f"line {number}: {entry['msgid']!r} stands twice")
            if all(forms):
                texts[key] = "\0".join(forms)
            entry = {}
        if line:
            field, _space, value = line.partition(" ")
            if field not in ("msgid", "msgid_plural", "msgstr") and not field.startswith("msgstr["):
                raise ValueError(f"line {number}: {line[:60]!r} is no line of a .po file")
            entry[field] = ast.literal_eval(value)
    return texts


def compiled(text: str) -> bytes:
    """The .mo file of a .po file: header, two tables of (length, offset), the texts (GNU gettext's manual, "MO Files")."""
    entries = sorted((key.encode(), value.encode()) for key, value in read(text).items())
    start = 28 + 16 * len(entries)
    tables: list[bytes] = []
    texts = b""
    for side in (0, 1):
        for entry in entries:
            tables.append(struct.pack("<II", len(entry[side]), start + len(texts)))
            texts += entry[side] + b"\0"
    header = struct.pack("<7I", _MAGIC, 0, len(entries), 28, 28 + 8 * len(entries), 0, start)
    return header + b"".join(tables) + texts


def main() -> None:
    """Compile every catalog."""
    for source in sorted(LOCALE.glob("*/LC_MESSAGES/django.po")):
        source.with_suffix(".mo").write_bytes(compiled(source.read_text("utf-8")))
        print(f"{source.parent.parent.name}: {len(read(source.read_text('utf-8'))) - 1} texts")


if __name__ == "__main__":
    main()
