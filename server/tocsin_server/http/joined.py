"""Join the modules and the style sheets of ``web/`` into the few files that a page loads.

A run's page has about 160 modules. One by one, they need as many requests, and compress worse by a third.
So they are joined: one script for all pages, one for the pages with charts, one for each page, and one for
each module that a page loads only when it is used, such as a dialog. No module is in two scripts. The style
sheets become three: of all pages, of the fleet, and of the others. The sources stay as they are; there is no
build step.
"""

from __future__ import annotations

import gzip
import posixpath
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import zstandard

from tocsin_server.http.web_files import WebVersion
from tocsin_server.report.bundle import BundleError, as_function, imports_of

FOLDER = "joined/"
MAIN = "main.js"
STYLES = FOLDER + "pages.css"
"""What all pages need, and all that a run's page needs."""
FLEET_STYLES, LATER_STYLES = FOLDER + "fleet.css", FOLDER + "later.css"
STYLES_OF = {
    "styles/fleet.css": FLEET_STYLES,
    "styles/compare.css": LATER_STYLES,
    "styles/alerting.css": LATER_STYLES,
    "styles/rules.css": LATER_STYLES,
}
"""The joined file of each style sheet that is not in STYLES."""
FLEET_PAGE, RUN_PAGE = "pages/fleet.js", "pages/run.js"
"""People open these first."""
WITHOUT_STYLES = {RUN_PAGE: (FLEET_STYLES, LATER_STYLES), FLEET_PAGE: (LATER_STYLES,)}
"""What these pages do not load; ``web/browser/styles.js`` does when another page is opened from them."""
CHARTS = "charts.js"
PAGES_WITH_CHARTS = frozenset({RUN_PAGE, "pages/compare.js", "pages/incident.js"})
"""What only these pages share is in the script CHARTS."""
FLEET, LATER = "fleet.js", "later.js"
"""What pages share and a run's page does not need at once: in FLEET if the fleet does, else in LATER."""
PAGES = {"": "fleet", "runs": "run", "incidents": "incident"}
"""Modules of pages whose address begins with another word."""
GZIP_LEVEL, ZSTD_LEVEL = 9, 19
_LATER = re.compile(r'\bimport\("(\.[^"]+)"\)')
_COMMENT = re.compile(r"^[ \t]*//[^\n]*|/\*\*?\s.*?\*/", re.MULTILINE | re.DOTALL)
"""A comment; with two slashes only on a separate line. No string of a module looks like one."""
_INDENT = re.compile(r"\n\s+")
_SHEETS = re.compile(r'(?:<link rel="stylesheet" href="/styles/\w+\.css" />\s*)+')
STYLE = '<link rel="stylesheet" href="/{}" />'
_SCRIPT = re.compile(r'<script src="/(\w+\.js)"')
"""A script that is no module."""
_FILE = re.compile(r'src="/(\w+\.js)"')
_SHEET = re.compile(r'href="/(styles/\w+\.css)"')


@dataclass(frozen=True)
class Packed:
    """A script or style sheet as it is sent; compressed when first asked for."""

    media_type: str
    text: bytes

    @cached_property
    def gzipped(self) -> bytes:
        """Return the text compressed with gzip."""
        return gzip.compress(self.text, GZIP_LEVEL, mtime=0)

    @cached_property
    def zstd(self) -> bytes:
        """Return the text compressed with zstd."""
        return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(self.text)


@dataclass(frozen=True)
class Joined:
    """The files of one version of ``web/``, by their paths below it, and the scripts that pages load."""

    version: str
    files: Mapping[str, Packed]
    scripts: Mapping[str, tuple[str, ...]]
    """Scripts of each module that is an entry."""
    index: str
    """``index.html`` with the joined files."""

    def scripts_of(self, address: str) -> tuple[str, ...]:
        """Return the scripts of the page at ``address``, such as ``/runs/r_1``."""
        return self.scripts.get(_page_at(address), ())

    def index_of(self, address: str) -> str:
        """Return ``index.html`` for the page at ``address``: the style sheets of other pages are disabled."""
        text = self.index
        for sheet in WITHOUT_STYLES.get(_page_at(address), ()):
            text = text.replace(STYLE.format(sheet), STYLE.format(sheet).replace(" />", " disabled />"))
        return text


def _page_at(address: str) -> str:
    """Return the module of the page at ``address``."""
    word = address.strip("/").partition("/")[0]
    return f"pages/{PAGES.get(word, word)}.js"


@dataclass(frozen=True)
class _Module:
    text: str
    imports: Mapping[str, str]
    """The modules that it imports, by the address in the import."""
    later: Mapping[str, str]
    """The same of ``import("...")``."""


class JoinedFiles:
    """The joined files of the present version of ``web/``."""

    def __init__(self, web: Path) -> None:
        self.version = WebVersion(web)
        self._web = web
        self._lock = threading.Lock()
        self._joined: Joined | None = None

    def present(self) -> Joined:
        """Return the files; they are joined again only after one of ``web/`` changed."""
        with self._lock:
            name = self.version.name()
            if self._joined is None or self._joined.version != name:
                self._joined = join(self._web, name)
            return self._joined


def join(web: Path, version: str) -> Joined:
    """Return the joined files of ``web``.

    Raises:
        BundleError: A module cannot be joined.
    """
    index = (web / "index.html").read_text("utf-8")
    files = {name: _packed("text/css", shortened(text)) for name, text in _styles(web, index).items()}
    index = _SHEETS.sub("".join(map(STYLE.format, files)), index, 1)
    modules = _modules(web)
    entries = [MAIN, *dict.fromkeys(path for each in modules.values() for path in each.later.values())]
    scripts = _scripts(modules, entries)
    for name in dict.fromkeys(scripts.values()):
        files[FOLDER + name] = _packed("text/javascript", _script(web, modules, scripts, name))
    for name in _SCRIPT.findall(index):
        files[FOLDER + name] = _packed("text/javascript", shortened((web / name).read_text("utf-8")))
    index = _FILE.sub(rf'src="/{FOLDER}\1"', index)
    needed = {entry: _needed(modules, scripts, entry) for entry in entries}
    return Joined(version, files, needed, index)


def _packed(media_type: str, text: str) -> Packed:
    return Packed(media_type, text.encode("utf-8"))


def _styles(web: Path, index: str) -> dict[str, str]:
    """Return the texts of the joined style sheets, in the order of ``index``."""
    joined: dict[str, str] = {}
    for path in _SHEET.findall(index):
        name = STYLES_OF.get(path, STYLES)
        joined[name] = joined.get(name, "") + (web / path).read_text("utf-8")
    return joined


def _modules(web: Path) -> dict[str, _Module]:
    """Return the modules that ``main.js`` imports, now or later, in the order in which they run."""
    found: dict[str, _Module] = {}
    later = [MAIN]

    def add(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise BundleError(f"{path}: imports itself through {importers[-1]}")
        if path in found:
            return
        text = shortened((web / path).read_text("utf-8"))
        module = _Module(text, _beside(path, imports_of(text)), _beside(path, _LATER.findall(text)))
        for each in module.imports.values():
            add(each, (*importers, path))
        found[path] = module
        later.extend(module.later.values())

    for path in later:
        add(path, ())
    return found


def _beside(path: str, addresses: Iterable[str]) -> dict[str, str]:
    folder = posixpath.dirname(path)
    return {address: posixpath.normpath(posixpath.join(folder, address)) for address in addresses}


def _scripts(modules: Mapping[str, _Module], entries: Sequence[str]) -> dict[str, str]:
    """Return the name of the script of each module."""
    reached = {entry: _reached(modules, entry) for entry in entries}
    pages = [entry for entry in entries if entry.startswith("pages/")]
    possible = {page: _reached(modules, page, later=True) for page in pages}
    return {
        path: _script_of(
            [entry for entry in entries if path in reached[entry]],
            frozenset(page for page in pages if path in possible[page]),
        )
        for path in modules
    }


def _script_of(users: Sequence[str], pages: frozenset[str]) -> str:
    """Return the script of a module that these entries import, and these pages import or load later."""
    if MAIN in users:
        return MAIN
    at_once = pages.intersection(users)
    if len(users) == 1 or (at_once and len(pages) == 1):
        return (*at_once, *users)[0].replace("/", "_")
    if pages <= PAGES_WITH_CHARTS and (RUN_PAGE in at_once or len(at_once) > 1):
        return CHARTS
    if RUN_PAGE in at_once:
        return MAIN
    return FLEET if FLEET_PAGE in at_once else LATER


def _reached(modules: Mapping[str, _Module], entry: str, *, later: bool = False) -> list[str]:
    """Return ``entry`` and the modules that it imports; with ``later``, also those that it may load."""
    found = [entry]
    for path in found:
        module = modules[path]
        also = [each for each in module.later.values() if later and not each.startswith("pages/")]
        found += dict.fromkeys(each for each in (*module.imports.values(), *also) if each not in found)
    return found


def _needed(modules: Mapping[str, _Module], scripts: Mapping[str, str], entry: str) -> tuple[str, ...]:
    """Return the scripts of ``entry``, first MAIN, which runs first."""
    names = dict.fromkeys([MAIN, *(scripts[path] for path in _reached(modules, entry))])
    return tuple(FOLDER + name for name in names)


def _script(web: Path, modules: Mapping[str, _Module], scripts: Mapping[str, str], name: str) -> str:
    """Return the text of a script: its imports, its modules as functions, and the export of all."""
    own = [path for path in modules if scripts[path] == name]
    needed = dict.fromkeys(each for path in own for each in modules[path].imports.values())
    foreign: dict[str, list[str]] = {}
    for path in needed:
        if scripts[path] != name:
            foreign.setdefault(scripts[path], []).append(_name(path))
    parts = [f'import {{{", ".join(names)}}} from "./{other}";' for other, names in foreign.items()]
    for path in own:
        module = modules[path]

        def later(found: re.Match[str], module: _Module = module) -> str:
            target = module.later[found[1]]
            return f'import("./{scripts[target]}").then((all) => all.{_name(target)})'

        text = _LATER.sub(later, module.text)
        imports = {address: _name(each) for address, each in module.imports.items()}
        parts.append(as_function(web / path, text, _name(path), imports))
    used = _used_elsewhere(modules, scripts)
    return "\n".join((*parts, f"export {{{', '.join(_name(path) for path in own if path in used)}}};\n"))


def _used_elsewhere(modules: Mapping[str, _Module], scripts: Mapping[str, str]) -> set[str]:
    """Return the modules that those of other scripts import, or that are loaded later."""
    now = {
        path
        for user, module in modules.items()
        for path in module.imports.values()
        if scripts[path] != scripts[user]
    }
    return now.union(*(module.later.values() for module in modules.values()))


def shortened(text: str) -> str:
    """Return a module or style sheet without its comments, indentation and empty lines."""
    return _INDENT.sub("\n", _COMMENT.sub("", text))


def _name(path: str) -> str:
    """Return the variable of a module, such as ``pages_run_js``."""
    return re.sub(r"\W", "_", path)
