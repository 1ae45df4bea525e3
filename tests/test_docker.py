"""The Docker image and the compose file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    return found


def compose() -> list[str]:
    """Return the compose command of this machine; skip the test if there is none."""
    docker = shutil.which("docker")
    if (
        docker
        and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0
    ):
        return [docker, "compose"]
    if found := shutil.which("docker-compose"):
        return [found]
    pytest.skip("neither `docker compose` nor `docker-compose` is installed here")


def config(**environ: str) -> subprocess.CompletedProcess[str]:
    command = [*compose(), "-f", str(COMPOSE), "config"]
    clean = {name: value for name, value in os.environ.items() if name != "POSTGRES_PASSWORD"}
    return subprocess.run(
        command, env=clean | environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_compose_accepts_the_file() -> None:
    """With a password set, the file describes one server and one Postgres."""
    done = config(POSTGRES_PASSWORD="from-the-environment")
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == {"tocsin", "postgres"}


def test_there_is_no_default_password() -> None:
    """Without a password, compose fails and says what to do."""
    done = config()
    assert done.returncode != 0
    assert "put it into .env" in done.stderr


def test_every_secret_comes_from_the_environment() -> None:
    """The file contains no password."""
    text = COMPOSE.read_text("utf-8")
    assert re.findall(r"PASSWORD:? ?[^$\n]*\$\{(\w+):\?", text) == ["POSTGRES_PASSWORD"]
    assert "tocsin:${POSTGRES_PASSWORD:?" in text


@pytest.mark.parametrize("name", ["tocsin", "postgres"])
def test_every_service_is_watched_and_keeps_its_data(name: str) -> None:
    """A health check, a volume, and a restart after a crash."""
    service = services()[name]
    assert service["healthcheck"]["test"]
    assert service["volumes"]
    assert service["restart"] == "unless-stopped"


def test_the_server_waits_for_its_database() -> None:
    """The server starts when its database is healthy, not just started."""
    assert services()["tocsin"]["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_ports_are_published_on_this_machine_only() -> None:
    """The port is published on loopback unless TOCSIN_PUBLISH is set; Postgres has no published port."""
    assert services()["tocsin"]["ports"] == ["${TOCSIN_PUBLISH:-127.0.0.1:8321}:8321"]
    assert "ports" not in services()["postgres"]


def test_the_image_does_not_run_as_root() -> None:
    """The image switches to another user before the command, and contains no PyTorch."""
    stages = DOCKERFILE.split("\nFROM ")
    assert len(stages) == 3
    assert re.findall(r"^USER (\w+)$", stages[-1], re.MULTILINE) == ["tocsin"]
    assert "HEALTHCHECK" in stages[-1]
    assert "demo" not in "".join(re.findall(r"\[[\w,]+\]", DOCKERFILE))


def test_the_base_of_the_image_is_pinned() -> None:
    """The versions of Python and Debian are fixed."""
    assert re.search(r"^ARG PYTHON=3\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"python:${PYTHON}"}


@pytest.mark.parametrize("source", re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE))
def test_what_the_image_takes_is_there(source: str) -> None:
    """Each path exists and is not excluded by .dockerignore."""
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for path in source.split():
        assert (ROOT / path).exists()
        assert f"!{path}" in ignored
