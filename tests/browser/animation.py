"""Pictures of a page as one animated WebP. Chromium compresses each picture; this puts them into one file."""

import base64
import struct
from dataclasses import dataclass, field

from playwright.sync_api import Page

#: Draws a PNG on a canvas and gives it as WebP.
_AS_WEBP = """async (png) => {
  const image = new Image(); image.src = 'data:image/png;base64,' + png; await image.decode();
  const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;
  canvas.getContext('2d', {alpha: false}).drawImage(image, 0, 0);
  return canvas.toDataURL('image/webp', 0.86).split(',')[1];
}"""
#: Says at the foot of a page what happens there.
_CAPTION = """(text) => {
  document.getElementById('caption')?.remove();
  const note = document.createElement('div'); note.id = 'caption'; note.textContent = text;
  Object.assign(note.style, {position: 'fixed', left: '50%', bottom: '76px', transform: 'translateX(-50%)', zIndex: 9999,
    background: '#0f3b44', color: '#fff', padding: '10px 22px', borderRadius: '999px', font: '600 19px Inter, sans-serif',
    boxShadow: '0 4px 18px rgba(0,0,0,.25)', whiteSpace: 'nowrap'});
  document.body.append(note);
}"""


@dataclass
class Film:
    """The pictures of a walk, each with how long it is shown, in milliseconds."""

    page: Page
    frames: list[tuple[bytes, int]] = field(default_factory=list)

    def take(self, caption: str, milliseconds: int = 900) -> None:
        """A picture of the page as it is now, with a line that says what happens."""
        self.page.evaluate(_CAPTION, caption)
        self.frames.append((self.page.screenshot(), milliseconds))

    def webp(self) -> bytes:
        """The animation, which begins anew at its end."""
        blank = self.page.context.new_page()
        size = self.page.viewport_size or {}
        try:
            stills = [
                (base64.b64decode(blank.evaluate(_AS_WEBP, base64.b64encode(png).decode())), shown)
                for png, shown in self.frames
            ]
        finally:
            blank.close()
        return animated(stills, size["width"], size["height"])


def animated(stills: list[tuple[bytes, int]], width: int, height: int) -> bytes:
    """One animated WebP of still ones (https://developers.google.com/speed/webp/docs/riff_container)."""
    canvas = _three(width - 1) + _three(height - 1)
    parts = _chunk(b"VP8X", bytes([0b10, 0, 0, 0]) + canvas) + _chunk(b"ANIM", struct.pack("<IH", 0xFFFFFFFF, 0))
    for still, milliseconds in stills:
        # At the upper left, of the canvas's size, drawn over the one before without blending.
        parts += _chunk(b"ANMF", bytes(6) + canvas + _three(milliseconds) + bytes([0b10]) + _picture(still))
    return _chunk(b"RIFF", b"WEBP" + parts)


def _picture(still: bytes) -> bytes:
    """The chunk of a still WebP that holds its pixels."""
    at = 12
    while at < len(still):
        name, size = struct.unpack_from("<4sI", still, at)
        if name in (b"VP8 ", b"VP8L"):
            return still[at : at + 8 + size + size % 2]
        at += 8 + size + size % 2
    raise ValueError("this is no still picture")


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")
