"""Gradient norms over a window, compared with the clipping threshold by two rules."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.view import View
from tocsin_server.detect.stats.finite import positive


class Stretch(msgspec.Struct):
    """Finite norms above 0 since the clipping threshold last changed, up to one window."""

    clip: float | None = None
    norms: list[float] = []
    since: tuple[int, int] = (0, 0)
    """Step and time of the first of these norms."""

    def windows(self, view: View, clip: float | None, window: int) -> Iterator[tuple[int, list[float]]]:
        """Add the norms of ``view``; yield row and norms of each window that they fill.

        Args:
            view: The records.
            clip: The clipping threshold; a change starts a new window.
            window: Number of norms of a window.
        """
        if clip != self.clip:
            self.clip, self.norms = clip, []
        norms = view.grad_norm or []
        if 0 < len(self.norms) < window - view.n and norms and positive(norms):
            self.norms += norms  # type: ignore[arg-type]
            return
        for row, norm in enumerate(norms):
            if norm is None or not 0.0 < norm < math.inf:
                continue
            if not self.norms:
                self.since = (view.step[row], view.time_ns[row])
            self.norms.append(norm)
            if len(self.norms) >= window:
                full, self.norms = self.norms, []
                yield row, full


def clip_of(context: RunContext, suffix: str) -> float | None:
    """Return the clipping threshold of an optimizer's gradient norm, or None if none applies.

    None applies without clipping, with an infinite threshold, and if scaled gradients are clipped, because
    that threshold does not refer to the reported norms.
    """
    clip = None if suffix in context.scaled_norms else context.clips.get(suffix)
    return clip if clip is not None and math.isfinite(clip) else None
