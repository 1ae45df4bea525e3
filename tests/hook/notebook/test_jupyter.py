"""A real Jupyter kernel: the card is live, a cell that fails is an alert, the next cell resolves it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.hook.ingest_server import IngestServer, wait_until
from tocsin.protocol import BETWEEN_CELLS

SETUP = """
import tocsin
run = tocsin.watch("notebooks", name="nb", url={url!r}, spool_dir={spool!r}, patch=False)
"""
TRAIN = "for i in range(5):\n    run.step(loss=1.0 / (i + 1))"


@pytest.fixture
def execute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: IngestServer, spool: Path
) -> Callable[..., Any]:
    """Execute cells after SETUP in a kernel of this Python; return the executed notebook."""
    kernels = tmp_path / "jupyter" / "kernels" / "here"
    kernels.mkdir(parents=True)
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": words, "language": "python", "display_name": "here"}
    (kernels / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def execute(*sources: str) -> Any:
        setup = SETUP.format(url=server.url, spool=str(spool))
        new: Any = nbformat.v4
        notebook = new.new_notebook(cells=[new.new_code_cell(source) for source in (setup, *sources)])
        nbclient.NotebookClient(notebook, kernel_name="here", timeout=60, allow_errors=True).execute()
        return notebook

    return execute


def html_of(cell: Any) -> list[str]:
    """Return the HTML outputs of a cell."""
    return [output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})]


def test_the_card_follows_the_run_under_the_cell_that_started_it(
    execute: Callable[..., Any], server: IngestServer
) -> None:
    notebook = execute(TRAIN, "run", "run.finish()")
    (first,), (shown,) = html_of(notebook.cells[0]), html_of(notebook.cells[2])
    for html in (first, shown):
        assert "finished · step 4" in html
        assert "loss: 0.2" in html
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "stream"] == []


def test_a_cell_that_ends_with_its_new_run_shows_one_card(
    execute: Callable[..., Any], server: IngestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_URL", server.url)
    notebook = execute("again = tocsin.watch('notebooks', name='again', patch=False); again", "again")
    assert [len(html_of(cell)) for cell in notebook.cells] == [1, 1, 1]


def test_a_cell_that_fails_in_training_is_an_alert_and_the_next_one_resolves_it(
    execute: Callable[..., Any], server: IngestServer
) -> None:
    """A typing mistake in a cell that does not train is none."""
    execute("1 / 0", f"{TRAIN}\nraise ValueError('bad batch')", TRAIN, "run.finish()")
    wait_until(lambda: server.writers and server.only.finish is not None)
    alerts = [event.data for event in server.only.events if event.kind == "alert"]
    assert [(alert["title"], alert.get("resolved", False)) for alert in alerts] == [
        ("A notebook cell failed", False),
        ("A notebook cell failed", True),
    ]
    assert "ValueError: bad batch" in alerts[0]["text"]
    assert server.only.finish is not None
    assert (server.only.finish.state, server.only.finish.records) == ("finished", 10)


def test_between_cells_the_heartbeat_says_so(execute: Callable[..., Any]) -> None:
    """Until the next cell trains, however long that takes."""
    phase = "run._reporter.sender._phase()"
    cells = execute(TRAIN, phase, f"{TRAIN}\n{phase}", phase).cells[2:]
    phases = [cell.outputs[-1]["data"]["text/plain"] for cell in cells]
    assert phases == [repr(BETWEEN_CELLS), repr(""), repr(BETWEEN_CELLS)]


def test_a_cell_that_is_executed_again_is_a_new_run(
    execute: Callable[..., Any], server: IngestServer, spool: Path
) -> None:
    execute(TRAIN, SETUP.format(url=server.url, spool=str(spool)), TRAIN)
    wait_until(lambda: len(server.writers) == 2)
    wait_until(lambda: all(kept.finish is not None for kept in server.writers.values()))
    assert [kept.finish.records for kept in server.writers.values() if kept.finish] == [5, 5]


def test_a_cell_that_is_executed_again_before_the_training_reports_nothing(
    execute: Callable[..., Any], server: IngestServer, spool: Path
) -> None:
    """Neither a warning nor an empty run."""
    watch = "import torch\n" + SETUP.replace(", patch=False", "").format(url=server.url, spool=str(spool))
    train = (
        "net = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "net(torch.ones(2)).sum().backward()\noptimizer.step()"
    )
    notebook = execute(watch, watch, train, "run.finish()")
    assert [output for cell in notebook.cells for output in cell.outputs if "text" in output] == []
    assert "finished · no step yet" in html_of(notebook.cells[1])[0]
    wait_until(lambda: server.only.finish is not None)


def test_the_log_has_what_every_cell_printed(
    execute: Callable[..., Any], server: IngestServer, spool: Path
) -> None:
    """Once each. IPython restores the ``write`` of the streams at the end of a cell."""
    watched = SETUP.replace("patch=False", "quiet=True").format(url=server.url, spool=str(spool))
    execute(f"{watched}\nprint('with watch')", f"{TRAIN}\nprint('later')", "run.finish()")
    wait_until(lambda: any(kept.finish for kept in server.writers.values()))
    events = [event for kept in server.writers.values() for event in kept.events if event.kind == "console"]
    assert [line[3] for event in events for line in event.data["lines"]] == ["with watch", "later"]


def test_a_run_is_named_after_its_notebook(execute: Callable[..., Any]) -> None:
    """As Jupyter and VS Code name it; Colab does not."""
    name = "from tocsin.api.startup import default_name; default_name('p')"
    jupyter = "import os; os.environ['JPY_SESSION_NAME'] = 'sub/In Jupyter.ipynb'"
    code = "__vsc_ipynb_file__ = '/home/me/In VS Code.ipynb'"
    cells = execute(name, f"{jupyter}; {name}", f"{code}; {name}").cells[1:]
    names = [cell.outputs[0]["data"]["text/plain"] for cell in cells]
    assert names == ["'notebook'", "'In Jupyter'", "'In VS Code'"]
