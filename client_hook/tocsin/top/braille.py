"""Draw lines with braille characters: 2 dots across and 4 down in each character. Pure."""

from __future__ import annotations

_BLANK = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the dots of a character, by column and row."""


class Canvas:
    """A canvas of ``width`` x ``height`` characters. The dot (0, 0) is at the top left."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells = [[0] * width for _ in range(height)]

    @property
    def dots(self) -> tuple[int, int]:
        """Number of dots across and down."""
        return 2 * self.width, 4 * self.height

    def dot(self, x: int, y: int) -> None:
        """Draw one dot. Outside the canvas, nothing is drawn."""
        if 0 <= x < 2 * self.width and 0 <= y < 4 * self.height:
            self._cells[y // 4][x // 2] |= _BITS[x % 2][y % 4]

    def bar(self, x: int, top: int, bottom: int) -> None:
        """Draw a vertical line, both ends included."""
        for y in range(min(top, bottom), max(top, bottom) + 1):
            self.dot(x, y)

    def line(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """Draw a line from left to right without gaps: ``x0 <= x1``."""
        if x0 == x1:
            self.bar(x0, y0, y1)
            return
        slope, before = (y1 - y0) / (x1 - x0), y0
        for x in range(x0, x1 + 1):
            y = round(y0 + slope * (x - x0))
            self.bar(x, before + (y > before) - (y < before), y)
            before = y

    def rows(self) -> list[str]:
        """Return the lines of text."""
        return ["".join(chr(_BLANK + cell) for cell in row) for row in self._cells]
