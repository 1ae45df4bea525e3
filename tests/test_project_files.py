"""The files around the code: workflows, issue forms, and the pages for contributors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"
FORMS = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]


def parsed(path: Path) -> dict[str, Any]:
    """Return a YAML file."""
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


def workflows() -> str:
    """Return the text of all workflows and actions."""
    return "\n".join(path.read_text("utf-8") for path in GITHUB.rglob("*.yml") if "ISSUE" not in str(path))


def pythons(project: str) -> set[str]:
    """Return the versions of Python that the classifiers of a project name."""
    table = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]
    return set(re.findall(r":: (3\.\d+)$", "\n".join(table["classifiers"]), re.MULTILINE))


def test_the_workflows_use_targets_of_the_makefile() -> None:
    """Each `make TARGET` exists."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    used = set(re.findall(r"run: make ([\w-]+)", workflows()))
    assert {"check", "test", "test-all", "test-lowest", "test-versions"} <= used
    assert used - targets == set()


def test_every_supported_python_is_tested() -> None:
    """The matrix of `ci` has all versions that the server supports; a separate job tests the hook on 3.10."""
    jobs = parsed(GITHUB / "workflows/ci.yml")["jobs"]
    matrix = set(jobs["test"]["strategy"]["matrix"]["python"])
    assert matrix == pythons("pyproject.toml")
    assert matrix | {jobs["hook"]["steps"][1]["with"]["python"]} == pythons("client_hook/pyproject.toml")


def test_every_action_is_pinned_to_a_version() -> None:
    """To a major version, never to a branch that could be changed."""
    uses = re.findall(r"uses: (\S+)", workflows())
    assert [one for one in uses if not re.search(r"^\./|@(v\d+|release/v\d+)$", one)] == []


def test_only_publishing_may_request_an_identity() -> None:
    """Only the job that publishes has `id-token: write`; it uses the environment `pypi`."""
    release = parsed(GITHUB / "workflows/release.yml")
    assert release["permissions"] == {"contents": "read"}
    jobs = release["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"}
    }
    assert jobs["publish"]["environment"]["name"] == "pypi"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_asks_for_the_output_of_doctor(form: Path) -> None:
    """The issue form asks for `tocsin doctor` and says where to run it."""
    (asked,) = [field for field in parsed(form)["body"] if field.get("id") == "doctor"]
    assert "tocsin doctor" in asked["attributes"]["label"]


def test_the_hooks_of_pre_commit_use_the_pinned_tools() -> None:
    """Their versions are in requirements-dev.txt and package-lock.json."""
    repositories = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    (local,) = [one for one in repositories if one["repo"] == "local"]
    pinned = (".venv/bin/", "npm run ")
    assert [hook["id"] for hook in local["hooks"] if not hook["entry"].startswith(pinned)] == []


def test_links_of_the_examples_lead_somewhere() -> None:
    """Every relative link of their page exists; tests/test_docs.py follows those at the root."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / "examples/README.md").read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / "examples" / link).exists()] == []
