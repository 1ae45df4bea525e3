"""Define how the runs of a tracker are found in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .source import Source, UnreadableSource

Found = Source | UnreadableSource


@dataclass(frozen=True)
class Folder:
    """A folder that is searched, with the names that are visible and not claimed yet."""

    path: Path
    files: frozenset[str]
    folders: frozenset[str]

    def named(self, *names: str) -> Iterator[Path]:
        """Yield those of the files that exist, in this order."""
        return (self.path / name for name in names if name in self.files)


@dataclass
class Claim:
    """Runs that a tracker found in a folder, and the names in it that belong to them."""

    runs: list[Found] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Tracker:
    """A tracker, defined as ``TRACKER`` in a module of ``trackers``. Those of lower order are asked first."""

    name: str
    order: int
    find: Callable[[Folder], Claim | None]
