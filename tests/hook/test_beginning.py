"""A watch begins or says why it does not; it never raises."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tocsin
from tests.hook.captured import KeptOutbox, KeptSender, watch
from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import TOKEN
from tocsin.beginning import default_name
from tocsin.capture import patching
from tocsin.disabled import NoRun
from tocsin.run import Run
from tocsin_server.intake import Limits, read_hello


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "nonsense"}, "expected something like http"),
        ({"grad_norm": "sometimes"}, 'expected "auto"'),
        ({"optimizers": 3}, "object"),
    ],
)
def test_a_watch_that_cannot_begin_says_why(
    options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Bad arguments cost the watch, never the training."""
    run = tocsin.watch("p", name="n", spool_dir=tmp_path, **options)
    assert isinstance(run, NoRun)
    assert reason in caplog.text
    run.log(a=1.0)


def test_a_watch_that_fails_half_way_leaves_torch_as_it_was(tmp_path: Path) -> None:
    """A model that cannot be described is noticed after the patches: they are taken back."""
    before = torch.autograd.backward
    assert isinstance(tocsin.watch("p", spool_dir=tmp_path, model=3), NoRun)
    assert torch.autograd.backward is before
    assert patching.attached == ()


def test_other_ranks_are_silent_where_one_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ranks=0`` gives rank 1 a run that does nothing."""
    monkeypatch.setenv("RANK", "1")
    assert isinstance(tocsin.watch("p", ranks=0), NoRun)
    assert isinstance(tocsin.watch("p", ranks=[0, 2]), NoRun)
    monkeypatch.setenv("RANK", "0")
    run = watch(KeptOutbox(), KeptSender(), ranks=[0, 2])
    assert isinstance(run, Run)


def test_the_watch_tells_what_it_attached_to() -> None:
    """The ``attached`` event names each signal and whether it is there."""
    run = watch(outbox := KeptOutbox(), model=torch.nn.Linear(2, 1))
    (event,) = outbox.events("attached")
    assert event["signals"] == dict.fromkeys(("optimizer", "loss", "scaler", "clip", "data"), "ok")
    assert event["model"] == {"class": "Linear", "parameters": 3, "tensors": 2}
    run.finish()


def test_a_run_without_torch_works() -> None:
    """Where torch cannot be imported, explicit steps are reported all the same."""
    body = """
        import sys
        class NoTorch:
            def find_spec(self, name, path=None, target=None):
                if name == "torch": raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, NoTorch())
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
        import tocsin
        run = tocsin.watch("p", url="http://127.0.0.1:9", exit_timeout=0.2)
        run.step(loss=1.0); run.log(a=2); run.check(batch=[float("nan")], losses={"x": 1.0})
        print(type(run).__name__, run._watch.errors, len(run._watch.outbox) > 0, "torch" in sys.modules)
        run.finish()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TOCSIN_SPOOL_DIR": ""},
    )
    assert done.stdout == "Run 0 True False\n", done.stderr


def test_a_spawned_worker_that_imports_the_script_is_silent(tmp_path: Path) -> None:
    """``watch`` at the top of an unguarded script is the parent's business, not each spawned worker's."""
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing, sys
            import tocsin
            run = tocsin.watch("p", url="http://127.0.0.1:9", exit_timeout=0.1, patch=False)
            print(type(run).__name__, flush=True)
            def work(): pass
            if __name__ == "__main__":
                child = multiprocessing.get_context("spawn").Process(target=work)
                child.start(); child.join()
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TOCSIN_SPOOL_DIR": str(tmp_path / "spool")},
    )
    assert done.stdout.split() == ["Run", "NoRun"], done.stderr


def test_a_run_is_named_after_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name the script's is taken, else the project's."""
    monkeypatch.setattr(sys, "argv", ["/a/train_gan.py", "--x"])
    assert default_name("p") == "train_gan"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert default_name("p") == "p"


ODD: list[dict[str, Any]] = [
    {"tags": None, "notes": None, "actions": None, "ranks": None, "exit_timeout": None},
    {"planned_steps": 1e3, "start_step": np.float64(4.0), "ranks": np.int64(0), "name": Path("a/b")},
    {"planned_steps": "many", "tags": range(100), "name": "n" * 300, "resume": 7, "token": 5},
    {"name": "two\nlines", "tags": ["a\tb", 3], "notes": 4, "exit_timeout": float("inf"), "ranks": "0"},
]


@pytest.mark.parametrize("options", ODD)
def test_odd_arguments_cost_no_record(
    options: dict[str, Any], strict_server: IngestServer, tmp_path: Path
) -> None:
    """What ``argparse`` and NumPy hand in: the hello is one that a server takes."""
    run = tocsin.watch("", url=strict_server.url, patch=False, **{"token": TOKEN, **options})
    strict_server.token = str(options.get("token", TOKEN))
    assert isinstance(run, Run)
    run.log(loss=1.0)
    run.finish()
    assert strict_server.only.columns == {"loss": [1.0]}
    (hello,) = strict_server.only.hellos
    _, told = read_hello(hello, Limits())
    assert [one for one in told if one.scope == "connection"] == []


def test_ranks_that_are_none_are_said(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that is handed in for ``ranks`` raises."""
    assert isinstance(tocsin.watch("p", ranks=object()), NoRun)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["model", "optimizer"])
def test_a_lazy_model_is_watched(given: str) -> None:
    """Its parameters have no size before its first batch: that costs their number, not the run."""
    net = torch.nn.Sequential(torch.nn.LazyLinear(1))
    kept = torch.optim.SGD(net.parameters(), lr=0.1) if given == "optimizer" else None
    run = watch(outbox := KeptOutbox(), model=net if given == "model" else None)
    net(torch.ones(2, 3)).mean().backward()
    (kept or torch.optim.SGD(net.parameters(), lr=0.1)).step()
    run.finish()
    assert len(outbox.items) == 1
    assert outbox.events("attached")[0].get("model", {}).get("parameters", 0) == 0
