"""A picture: an array, a tensor, a file, a figure of matplotlib or an image of Pillow, stored as PNG."""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import Any

from ..core.redaction import Redactor
from .objects import CONTENT_BYTES, Media, why
from .snapshot import Snapshot, UnreadableError, of_picture

SIDE = 512
"""Maximum pixels of a side."""
SMALLEST = 16
DPI = (72, 50, 36)
FIGURE_SIDE = 2 * SIDE
"""Maximum pixels of a side of a figure. It is drawn on the training thread."""
MAGENTA = (255, 0, 255)
"""Color of pixels that are NaN or infinite."""
FORMATS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""First bytes of a file -> its type."""


class Image(Media):
    """An image. Numbers beyond 0 to 1 (0 to 255 if they are whole) are scaled from lowest to highest.

    Pixels that are NaN or infinite are magenta.
    """

    kind = "image"

    def __init__(self, data: Any, caption: str = "") -> None:
        """Take a snapshot.

        Args:
            data: Rows x columns, with 1, 3 or 4 channels first or last; a file; a figure of matplotlib,
                its axes or ``pyplot``; an image of Pillow.
            caption: Shown with it.
        """
        super().__init__(caption)
        self._file = b""
        self._snapshot: Snapshot | None = None
        try:
            if isinstance(data, (str, os.PathLike)):
                self._file = _read(data)
            elif (figure := _figure(data)) is not None:
                self._file = _drawn(figure)
            else:
                self._snapshot = of_picture(_reduced(data), SIDE)
        except Exception as error:
            self.problem = why(error)

    @property
    def is_ready(self) -> bool:
        return self._snapshot is None or self._snapshot.is_ready

    def content(self, clean: Redactor) -> tuple[bytes, dict[str, Any]]:
        if self._snapshot is None:
            return self._file, {"mime": _type_of(self._file)}
        pixels, facts = _pixels(self._snapshot.array())
        encoded = _png(pixels)
        while len(encoded) > CONTENT_BYTES and max(pixels.shape[:2]) > SMALLEST:
            pixels = _halved(pixels)
            encoded = _png(pixels)
        height, width = pixels.shape[:2]
        return encoded, {"mime": "image/png", "width": width, "height": height, **facts}


def _read(path: Any) -> bytes:
    """Return a small file of a known format.

    Raises:
        UnreadableError: It is too large, or of another format.
        OSError: It cannot be read.
    """
    size = os.stat(path).st_size
    if size > CONTENT_BYTES:
        raise UnreadableError(
            f"the file has {size:,} bytes, more than {CONTENT_BYTES:,}; pass the pixels, which are scaled"
        )
    with open(path, "rb") as file:
        found = file.read(CONTENT_BYTES + 1)
    _type_of(found)
    return found


def _type_of(file: bytes) -> str:
    for start, name in FORMATS.items():
        if file.startswith(start):
            return name
    raise UnreadableError("the file is not a PNG, JPEG, GIF or WebP")


def _figure(data: Any) -> Any:
    """Return the figure of pyplot, of axes, or the figure itself; None for anything else."""
    if hasattr(data, "savefig"):
        return data.gcf() if hasattr(data, "gcf") else data
    figure = getattr(data, "figure", None)
    return figure if hasattr(figure, "savefig") else None


def _drawn(figure: Any) -> bytes:
    """Return a figure of matplotlib, or a grid of seaborn, as PNG in the highest resolution that fits."""
    sized = figure if hasattr(figure, "get_size_inches") else figure.figure
    most = FIGURE_SIDE / max(sized.get_size_inches())
    for dpi in DPI:
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=min(dpi, most))
        if target.tell() <= CONTENT_BYTES:
            return target.getvalue()
    raise UnreadableError(f"the figure takes more than {CONTENT_BYTES:,} bytes as PNG; make it smaller")


def _reduced(data: Any) -> Any:
    """Return an image of Pillow in RGB at a bounded size; anything else unchanged."""
    if not (hasattr(data, "reduce") and hasattr(data, "convert") and hasattr(data, "getbands")):
        return data
    by = -(-max(data.size) // SIDE)
    return (data.reduce(by) if by > 1 else data).convert("RGB")


def _pixels(array: Any) -> tuple[Any, dict[str, Any]]:
    """Return rows x columns x channels of bytes, and how many values are not finite."""
    import numpy

    values = array[:, :, None] if array.ndim == 2 else array
    if values.dtype == numpy.uint8:
        return values, {}
    floats = values.astype("f8")
    finite = numpy.isfinite(floats)
    known = floats[finite]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    top = 255.0 if values.dtype.kind in "iu" else 1.0
    floor, ceiling = (0.0, top) if low >= 0.0 and high <= top else (low, high)
    scaled = (floats - floor) * (255.0 / ((ceiling - floor) or 1.0))
    pixels = numpy.nan_to_num(scaled, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 255).round().astype("u1")
    facts = {"low": low, "high": high, "nonfinite": int((~finite).sum())}
    if facts["nonfinite"]:
        pixels = numpy.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[:, :, :3].copy()
        pixels[~finite.all(axis=2)] = MAGENTA
    return pixels, facts


def _halved(pixels: Any) -> Any:
    """Return the picture at half the size, each pixel the mean of four."""
    height, width = (size // 2 * 2 for size in pixels.shape[:2])
    even = pixels[:height, :width].astype("u2")
    mean = (even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]) // 4
    return mean.astype("u1")


def _png(pixels: Any) -> bytes:
    """Return 8-bit pixels as PNG (ISO/IEC 15948), rows without a filter."""
    height, width, channels = pixels.shape
    color = {1: 0, 3: 2, 4: 6}[channels]
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 6)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
