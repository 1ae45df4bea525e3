"""Remember what was imported, so that a log without an id of its run is the same run after it has grown.

Two small files for each imported log, in ``~/.local/state/tocsin/imports``. Without them, a log that has not
changed is still recognized, by its content. A copy in another folder is another run, while both exist.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from ..importers import Source


class Mark(msgspec.Struct, frozen=True):
    """A run, and the number of bytes and the digest of the content that was imported."""

    run: str
    size: int
    digest: str


class Marks:
    """The marks of one user. Errors of the disk lose marks, and nothing else."""

    def __init__(self, folder: Path | None = None) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = folder or Path(state, "tocsin", "imports")

    def identify(self, source: Source) -> Mark:
        """Return the mark of ``source`` as it is now. Its run is the one that was imported before, if that
        is the beginning of it; else one derived from its id, or from its name and content.
        """
        if source.about.key:
            digest = _digest(f"{source.kind}\0{source.about.key}".encode())
            return Mark(digest.hexdigest(), 0, "")
        known, is_same, size = self._known(source.path), False, 0
        digest = _digest(source.path.name.encode("utf-8", "surrogateescape") + b"\0")
        for chunk in source.content():
            if known is not None and size < known.size <= size + len(chunk):
                part = digest.copy()
                part.update(chunk[: known.size - size])
                is_same = part.hexdigest() == known.digest
            digest.update(chunk)
            size += len(chunk)
        found = digest.hexdigest()
        run = known.run if known is not None and is_same else self._own(found, source.path)
        return Mark(run, size, found)

    def keep(self, source: Source, mark: Mark) -> None:
        """Remember the run of ``source``. Replaces the file as a whole."""
        if source.about.key:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write(self._place(source.path), msgspec.json.encode(mark))
            self._write(self._origin(mark.run), os.fsencode(source.path.resolve()))

    def _own(self, digest: str, path: Path) -> str:
        """Return the run of a log by its content, or another one if a file elsewhere was imported as that."""
        own = os.fsencode(path.resolve())
        try:
            first = self._origin(digest).read_bytes()
        except OSError:
            return digest
        is_copy = first != own and os.path.exists(first)
        return _digest(digest.encode() + own).hexdigest() if is_copy else digest

    def _write(self, place: Path, content: bytes) -> None:
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
            file.write(content)
        os.replace(file.name, place)

    def _origin(self, run: str) -> Path:
        """Return the file that has the path from which a run was imported."""
        return self._folder / f"{run}.path"

    def _known(self, path: Path) -> Mark | None:
        try:
            return msgspec.json.decode(self._place(path).read_bytes(), type=Mark)
        except (OSError, msgspec.DecodeError):
            return None

    def _place(self, path: Path) -> Path:
        name = _digest(os.fsencode(path.resolve())).hexdigest()
        return self._folder / f"{name}.json"


def _digest(data: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=10)
