"""The wheels and sdists of both packages: their contents, and that they work outside the repository."""

from __future__ import annotations

import email
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest
import yaml

import tocsin
from tests.conftest import Tower
from tests.matrix import LONG

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {"tocsin": ROOT / "client_hook", "tocsin_server": ROOT}


class Distributions:
    """Both sdists, built from the repository, and both wheels, built from the sdists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for project in PROJECTS.values():
            hatchling("sdist", project, folder)
        for sdist in sorted(folder.glob("*.tar.gz")):
            with tarfile.open(sdist) as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # new in Python 3.11.4
                archive.extractall(folder / "unpacked")
        for project in sorted((folder / "unpacked").iterdir()):
            hatchling("wheel", project, folder)

    def wheel(self, package: str) -> Path:
        """Return the path of a wheel."""
        (found,) = self.folder.glob(f"{package}-*.whl")
        return found

    def files(self, package: str) -> set[str]:
        """Return the names of the files in a wheel."""
        with zipfile.ZipFile(self.wheel(package)) as archive:
            return set(archive.namelist())

    def read(self, package: str, name: str) -> bytes:
        """Return a file of a wheel."""
        with zipfile.ZipFile(self.wheel(package)) as archive:
            return archive.read(name)

    def metadata(self, package: str) -> Message:
        """Return the metadata of a wheel."""
        (name,) = [name for name in self.files(package) if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(self.read(package, name))


def hatchling(target: str, project: Path, out: Path, **environ: str) -> None:
    """Build one distribution as pip does, with the installed hatchling."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """What a release uploads."""
    return Distributions(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with both wheels. It shares the dependencies of the tests, which is faster."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (site / "shared.pth").write_text("\n".join(shared), "utf-8")
    wheels = [str(built.wheel(package)) for package in PROJECTS]
    pip(folder, "install", "--no-deps", "--no-index", *wheels)
    return folder


def pip(environment: Path, *arguments: str) -> None:
    """Run pip for a virtual environment without pip."""
    python = str(environment / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--quiet", "--python", python, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def output(environment: Path, *command: str) -> str:
    """Return what a program of the environment prints."""
    program = str(environment / "bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]], cwd=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def served(installed: Path, tmp_path: Path) -> Iterator[Tower]:
    """A server that runs from the wheels."""
    tower = Tower(tmp_path)
    tower.command = [str(installed / "bin" / "tocsin-server")]
    tower.start()
    yield tower
    tower.stop()


def fetched(tower: Tower, path: str) -> bytes:
    """Return the body of a page."""
    request = urllib.request.Request(tower.base + path)
    request.add_header("authorization", f"Bearer {tower.token}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def test_the_server_has_all_pages_and_migrations(built: Distributions) -> None:
    """Every file of web/ and migrations/ is in its wheel."""
    paths = [path for name in ("web", "migrations") for path in (ROOT / name).rglob("*") if path.is_file()]
    wanted = {f"tocsin_server/{path.relative_to(ROOT)}" for path in paths if "__pycache__" not in path.parts}
    assert wanted
    assert wanted - built.files("tocsin_server") == set()


@pytest.mark.parametrize("package", PROJECTS)
def test_a_wheel_has_its_package_only(built: Distributions, package: str) -> None:
    """No tests, no bytecode and nothing from Node.js; the marker of typed packages is included."""
    files = built.files(package)
    assert {name.split("/")[0] for name in files} == {package, f"{package}-{tocsin.__version__}.dist-info"}
    assert [name for name in files if re.search(r"node_modules|__pycache__|\.pyc$|/tests/", name)] == []
    assert f"{package}/py.typed" in files


@LONG
@pytest.mark.skipif(shutil.which("cc") is None or sys.version_info < (3, 11), reason="needs a C compiler")
def test_a_compiled_wheel_serves_all_later_versions(built: Distributions, tmp_path: Path) -> None:
    """The hook's sdist compiles to a wheel of the stable ABI; by default it is pure Python."""
    project = built.folder / "unpacked" / f"tocsin-{tocsin.__version__}"
    hatchling("wheel", project, tmp_path, TOCSIN_COMPILE="1")
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        added = set(archive.namelist()) - built.files("tocsin")
    assert added == {"tocsin/spool/_pack.abi3.so"}


@pytest.mark.parametrize("package", PROJECTS)
def test_the_page_on_pypi_is_complete(built: Distributions, package: str) -> None:
    """Description, license, classifiers and links; no link that is relative to the repository."""
    metadata = built.metadata(package)
    links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    labels = {line.split(",")[0] for line in metadata.get_all("Project-URL", [])}
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    assert {"Source", "Issues", "Changelog", "Documentation"} <= labels
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_the_version_is_written_once(built: Distributions) -> None:
    """Both packages use the version of tocsin/__init__.py; the changelog and CITATION.cff have the same."""
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert newest
    stated = {built.metadata(package)["Version"] for package in PROJECTS}
    assert stated | {newest[1], citation["version"]} == {tocsin.__version__}


def test_the_license_of_the_hook_is_that_of_the_repository() -> None:
    """Its sdist is built from its own folder, which therefore has a copy."""
    assert (ROOT / "client_hook/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("command", ["tocsin", "tocsin-server"])
def test_installed_commands_print_the_version(installed: Path, command: str) -> None:
    """``--version`` of both commands."""
    assert output(installed, command, "--version") == tocsin.__version__


def test_pages_and_assets_come_from_the_wheel(built: Distributions, served: Tower) -> None:
    """The server joined the modules of the wheel. It migrated its database from the wheel, too."""
    (script,) = re.findall(rb'src="(/assets/web-\w+/joined/main.js)"', fetched(served, "/"))
    assert "const main_js = (() => {" in fetched(served, script.decode()).decode()


@LONG
def test_plotly_js_is_served(served: Tower) -> None:
    """In the version that the session names."""
    version = served.get("/session")["plotly"]
    assert len(fetched(served, f"/assets/plotly-{version}.min.js")) > 1_000_000


def test_nothing_comes_from_the_repository(installed: Path) -> None:
    """Both packages are imported from the environment."""
    code = "import tocsin, tocsin_server; print(tocsin.__file__, tocsin_server.__file__)"
    paths = output(installed, "python", "-c", code).split()
    assert [path for path in paths if not Path(path).is_relative_to(installed)] == []


@LONG
@pytest.mark.timeout(1800)
def test_the_demo_runs_in_an_empty_environment(built: Distributions, tmp_path: Path) -> None:
    """pip installs the wheels with all their dependencies; the three trainings of the demo succeed."""
    environment = tmp_path / "empty"
    venv.create(environment)
    hook, server = (str(built.wheel(package)) for package in PROJECTS)
    pip(environment, "install", hook, f"{server}[demo]")
    command = [str(environment / "bin" / "tocsin-server"), "demo", "--steps", "20", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:
        try:
            ended = list(itertools.islice(lines_with(demo, "ended with status"), 3))
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate(timeout=120)
    assert [line for line in ended if "status 0;" not in line] == []
    assert (len(ended), demo.returncode) == (3, 0)


def lines_with(process: subprocess.Popen[str], text: str) -> Iterator[str]:
    """Yield the printed lines that contain a text."""
    assert process.stdout is not None
    yield from (line for line in process.stdout if text in line)
