"""``tocsin checkpoints`` and ``tocsin.last_good_checkpoint``, with a server of the test's own."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import tocsin
from tests.hook.ingest_server import closed_port
from tests.hook.trainers import TOKEN
from tocsin.cli.commands import main


class Api(ThreadingHTTPServer):
    """Answers with ``items``, as the server would; the first good one is the last good."""

    items: list[dict[str, Any]]
    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Api

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        good = next((dict(item) for item in self.server.items if not item["problem"]), None)
        answer = {"items": self.server.items, "last_good": good, "text": "the server's sentence"}
        status = 401 if self.headers["Authorization"] != f"Bearer {TOKEN}" else 200
        if "/missing" in self.path:
            status, answer = 404, {"detail": "Run not found: missing"}
        elif "/runs?" in self.path:
            answer = {"items": [], "next": None}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with Api(("127.0.0.1", 0), Handler) as api:
        api.items, api.asked = [], []
        monkeypatch.setenv("TOCSIN_URL", f"http://127.0.0.1:{api.server_port}")
        monkeypatch.setenv("TOCSIN_TOKEN", TOKEN)
        monkeypatch.delenv("TOCSIN_HOSTNAME", raising=False)
        thread = Thread(target=api.serve_forever)
        thread.start()
        yield api
        api.shutdown()
        thread.join()


def item(path: Path | str, step: int, problem: str = "", **fields: Any) -> dict[str, Any]:
    """Return a checkpoint of this machine."""
    known = {"path": str(path), "step": step, "problem": problem, "host": socket.gethostname(), "size": 5}
    return {**known, "escaped": False, **fields}


def test_a_missing_file_of_this_machine_is_not_offered(api: Api, tmp_path: Path) -> None:
    """One of another machine is: it may be out of reach here."""
    (tmp_path / "a.pt").touch()
    api.items = [item(tmp_path / "gone.pt", 2), item(tmp_path / "a.pt", 1)]
    assert tocsin.last_good_checkpoint("r1", before=7) == str(tmp_path / "a.pt")
    assert api.asked == ["/api/v1/runs/r1/checkpoints?before=7"]
    api.items[0]["host"] = "other"
    assert tocsin.last_good_checkpoint("r1") == str(tmp_path / "gone.pt")
    api.items = [item("s3://bucket/a", 3)]
    assert tocsin.last_good_checkpoint("a/b") == "s3://bucket/a"
    assert api.asked[-1] == "/api/v1/runs/a%2Fb/checkpoints"


def test_escaped_paths_are_real_paths(
    api: Api, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A restart script gets the bytes of the name."""
    (tmp_path / "a\n\udcff.pt").touch()
    api.items = [item(f"{tmp_path}/a\\u000a\\udcff.pt", 1, escaped=True)]
    assert tocsin.last_good_checkpoint("r1") == f"{tmp_path}/a\n\udcff.pt"
    assert main(["checkpoints", "r1", "--path"]) == 0
    assert capfdbinary.readouterr().out == f"{tmp_path}/a\n".encode() + b"\xff.pt\n"


def test_the_list_names_each_problem(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And ends with the sentence of the server."""
    (tmp_path / "a.pt").touch()
    api.items = [item(tmp_path / "b.pt", 9, "holds NaN weights"), item(tmp_path / "a.pt", 1, size=2_500_000)]
    assert main(["checkpoints", "r1"]) == 0
    head, first, second, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["GOOD", "STEP", "SIZE", "PATH", "PROBLEM"]
    assert first.startswith("no    9")
    assert first.endswith("b.pt  holds NaN weights")
    assert second.startswith("yes   1")
    assert "2.5 MB" in second
    assert last == "the server's sentence"


def test_json_is_the_complete_answer(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pt").touch()
    api.items = [item(tmp_path / "gone.pt", 2), item(tmp_path / "a.pt", 1)]
    assert main(["checkpoints", "r1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [each["exists"] for each in answer["items"]] == [False, True]
    assert answer["last_good"]["file"] == str(tmp_path / "a.pt")
    assert answer["text"].startswith(f"{tmp_path}/gone.pt (step 2) no longer exists.")


def test_without_a_good_one_the_status_is_1(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the only good one was deleted."""
    api.items = [item(tmp_path / "gone.pt", 2), item(tmp_path / "b.pt", 1, "was not written completely")]
    assert tocsin.last_good_checkpoint("r1") is None
    assert main(["checkpoints", "r1", "--path"]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["missing"], LookupError, "There is no run 'missing'"),
        (["r1", "--token", "wrong"], PermissionError, "scope read"),
        (["r1", "--url", f"http://127.0.0.1:{closed_port()}"], ConnectionError, "No answer from"),
        (["r1", "--url", "nonsense"], ValueError, "server address"),
    ],
)
@pytest.mark.usefixtures("api")
def test_a_restart_script_never_gets_nothing_by_mistake(
    arguments: list[str], error: type[Exception], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unreachable server is an error, not a run without checkpoints."""
    assert main(["checkpoints", *arguments]) == 2
    assert message in capsys.readouterr().err
    options: dict[str, Any] = {arguments[1][2:]: arguments[2]} if arguments[1:] else {}
    with pytest.raises(error, match=message):
        tocsin.last_good_checkpoint(arguments[0], **options)
