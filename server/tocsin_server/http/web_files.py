"""Find the files of ``web/``, which the pages and reports are made of, and name their version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from tocsin_server.core.errors import StartError
from tocsin_server.http import plotlyjs
from tocsin_server.report.page import Assets, assets_of


def web_directory() -> Path:
    """Return ``web/`` of the installed package or the root of the checkout. Raises StartError."""
    here = Path(__file__).resolve().parents[1]
    for place in (here / "web", here.parent.parent / "web"):
        if (place / "index.html").is_file():
            return place
    raise StartError(f"There is no index.html in {here / 'web'}. Install tocsin-server again.")


def report_assets() -> Assets:
    """Return what every report contains: plotly.js, the script and the style sheet. Raises StartError."""
    return assets_of(web_directory(), plotlyjs.installed().script.decode("utf-8"))


class WebVersion:
    """A name for the content of ``web/``, which is part of the addresses of its files.

    Browsers keep a file of a version forever, and a page never mixes modules of two versions. Content counts,
    not times: an installer may give all files the same time.
    """

    def __init__(self, web: Path) -> None:
        self._web = web
        self._seen: dict[str, tuple[int, int]] = {}
        """Time in nanoseconds and size of each file when its content was read."""
        self._name = ""

    def name(self) -> str:
        """Return 16 hexadecimal digits; files are read again only after one of them changed."""
        seen = {path: (stat.st_mtime_ns, stat.st_size) for path, stat in _files(self._web)}
        if seen != self._seen:
            digest = blake2b(digest_size=8)
            for path in sorted(seen):
                digest.update(f"{os.path.relpath(path, self._web)} {seen[path][1]}\n".encode())
                digest.update(Path(path).read_bytes())
            self._seen, self._name = seen, digest.hexdigest()
        return self._name

    def has(self, name: str, path: str) -> bool:
        """Return whether the file ``path`` is still that of the version ``name``. Reads no file."""
        known = self._seen.get(str(self._web / path))
        if name != self._name or known is None:
            return False
        try:
            stat = (self._web / path).stat()
        except FileNotFoundError:
            return False
        return known == (stat.st_mtime_ns, stat.st_size)


def _files(folder: Path | str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat()
