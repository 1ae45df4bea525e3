"""``tocsin enable``: the trainings of an environment are watched if TOCSIN_AUTO=1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.cli.enable import FILE, install, remove

SHOW = "import site, sys; site.addsitedir({folder!r}); print('tocsin.auto.start' in sys.modules)"


@pytest.mark.parametrize("auto", ["1", "true", "0", "no", ""])
def test_the_hook_is_loaded_only_with_the_variable(tmp_path: Path, auto: str) -> None:
    """Python reads the file at startup. The words are those of TOCSIN_DISABLE."""
    install(tmp_path)
    command = [sys.executable, "-c", SHOW.format(folder=str(tmp_path))]
    done = subprocess.run(command, env={"TOCSIN_AUTO": auto}, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{auto in ('1', 'true')}\n", "")


def test_without_tocsin_the_file_does_nothing(tmp_path: Path) -> None:
    """After it was uninstalled, Python starts without a message."""
    install(tmp_path)
    command = [sys.executable, "-I", "-S", "-c", SHOW.format(folder=str(tmp_path))]
    done = subprocess.run(command, env={"TOCSIN_AUTO": "1"}, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_disable_removes_the_file(tmp_path: Path) -> None:
    """The second time there is none."""
    path = install(tmp_path)
    assert remove(tmp_path) == path
    assert not path.exists()
    assert remove(tmp_path) is None


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(OSError, match=r"cannot be written: Is a directory.*`tocsin run`"):
        install(tmp_path)
