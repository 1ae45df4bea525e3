"""A watch starts or reports why it does not; it never raises."""

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
from tests.matrix import LONG, represented
from tocsin import protocol
from tocsin.api.no_run import NoRun
from tocsin.api.run import Run
from tocsin.api.startup import default_name
from tocsin.capture import patching
from tocsin_server.runs.validation.handshake import read_handshake, read_sealed
from tocsin_server.runs.validation.limits import Limits


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
    """With invalid arguments there is no run, but the training continues."""
    run = tocsin.watch("p", name="n", spool_dir=tmp_path, **options)
    assert isinstance(run, NoRun)
    assert reason in caplog.text
    run.log(a=1.0)


def test_a_first_call_without_free_file_descriptors_does_not_raise() -> None:
    """The hook imports most of itself at the first call, which then fails. One warning says so."""
    script = """
        import logging, os, resource, tocsin
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1,) * 2)
        logging.basicConfig()
        run = tocsin.watch("p", config={"lr": 0.5})
        with tocsin.init("p", id="a") as again:
            tocsin.mirror("wandb")
            tocsin.log(loss=run.config["lr"])
            print(tocsin.watched(lambda: 2)(), type(again).__name__)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "NoRun"]
    assert done.stderr.count("Too many open files") == 1


def test_a_watch_that_fails_half_way_leaves_torch_as_it_was(tmp_path: Path) -> None:
    """A model that cannot be described fails after the patches, which are undone."""
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


def test_watch_reports_what_it_attached_to() -> None:
    """The ``attached`` event names each signal and whether it is there."""
    run = watch(outbox := KeptOutbox(), model=torch.nn.Linear(2, 1))
    (event,) = outbox.events("attached")
    assert event["signals"] == dict.fromkeys(
        ("optimizer", "loss", "scaler", "clip", "data", "checkpoints"), "ok"
    )
    assert event["model"] == {"class": "Linear", "parameters": 3, "tensors": 2}
    run.finish()


def process(body: str, url: str, spool: Path) -> str:
    """Return what a script prints that gets the run's arguments as ``options``."""
    head = f"import sys, tocsin\noptions = dict(url={url!r}, spool_dir={str(spool)!r}, token='tk')\n"
    command = [sys.executable, "-c", head + textwrap.dedent(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_without_torch_stays_without(server: IngestServer, spool: Path) -> None:
    """JAX and NumPy: no call imports torch, although it is installed."""
    body = """
        run = tocsin.watch("p", config={"lr": 0.1}, **options)
        run.log(a=1.0); run.step(loss=0.5); run.check(batch=[1.0]); run.batch(3)
        with run.phase("eval"): run.evaluate(psnr=30.0)
        run.finish()
        print("torch" in sys.modules)
    """
    assert process(body, server.url, spool) == "False\n"
    assert server.only.finish is not None


@pytest.mark.parametrize("before", represented(["", "run.log(a=1.0)"]), ids=["silent", "logging"])
def test_a_torch_that_is_imported_later_is_captured(server: IngestServer, spool: Path, before: str) -> None:
    """``watch`` at the top of a script, the import of torch below it; a mere search for torch does not
    count."""
    body = f"""
        import importlib.util
        run = tocsin.watch("p", grad_norm=False, **options)
        {before}
        importlib.util.find_spec("torch")
        waited = [getattr(finder, "name", "") for finder in sys.meta_path]
        import torch
        assert waited[0] == "torch" != getattr(sys.meta_path[0], "name", "")
        weight = torch.nn.Parameter(torch.ones(()))
        optimizer = torch.optim.SGD([weight], lr=0.5)
        for _ in range(3):
            (weight * 2.0).backward(); optimizer.step(); optimizer.zero_grad()
        run.finish()
    """
    process(body, server.url, spool)
    kept = server.only
    assert len(kept.seqs) == 3 + bool(before)
    assert "'class': 'SGD'" in repr((kept.hellos, kept.events))


@LONG
def test_log_counts_by_itself_in_a_torch_process_without_optimizers(
    server: IngestServer, spool: Path
) -> None:
    """In a separate process, because others in this one may have live optimizers."""
    body = """
        import torch
        run = tocsin.watch("p", **options)
        for k in range(50): tocsin.log(loss=torch.tensor(float(k)))
        run.finish()
    """
    process(body, server.url, spool)
    assert server.only.steps == list(range(50))


def test_a_run_that_ends_before_torch_comes_leaves_the_import_as_it_was(tmp_path: Path) -> None:
    """Nothing waits for torch any longer."""
    body = """
        before = list(sys.meta_path)
        tocsin.watch("p", exit_timeout=0.1, **options).finish()
        print(sys.meta_path == before)
    """
    assert process(body, "http://127.0.0.1:9", tmp_path) == "True\n"


def test_a_run_without_torch_works() -> None:
    """If torch cannot be imported, explicit steps are reported all the same."""
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
        print(type(run).__name__, run._reporter.errors, len(run._reporter.outbox) > 0, "torch" in sys.modules)
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
    """``watch`` at the top of an unguarded script runs in the parent only, not in spawned workers."""
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
    """Without a name, the script's name is used, else the project's."""
    monkeypatch.setattr(sys, "argv", ["/a/train_gan.py", "--x"])
    assert default_name("p") == "train_gan"
    for given in ("-c", "-"):
        monkeypatch.setattr(sys, "argv", [given])
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
    """Values from ``argparse`` and NumPy: the server accepts the hello."""
    run = tocsin.watch("", url=strict_server.url, patch=False, **{"token": TOKEN, **options})
    strict_server.token = str(options.get("token", TOKEN))
    assert isinstance(run, Run)
    run.log(loss=1.0)
    run.finish()
    assert strict_server.only.columns == {"loss": [1.0]}
    (hello,) = strict_server.only.hellos
    _, reported = read_handshake(read_sealed(protocol.encode(hello)), Limits())
    assert [one for one in reported if one.scope == "connection"] == []


def test_the_line_break_of_a_secret_file_is_not_part_of_the_token(
    strict_server: IngestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", f"{TOKEN}\n")
    run = tocsin.watch("p", url=strict_server.url, patch=False, spool_dir=tmp_path)
    run.log(loss=1.0)
    run.finish()
    assert strict_server.only.columns == {"loss": [1.0]}


def test_invalid_ranks_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """No value of ``ranks`` raises."""
    assert isinstance(tocsin.watch("p", ranks=object()), NoRun)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["model", "optimizer"])
def test_a_lazy_model_is_watched(given: str) -> None:
    """Its parameters have no size before its first batch, so only their number is missing."""
    net = torch.nn.Sequential(torch.nn.LazyLinear(1))
    kept = torch.optim.SGD(net.parameters(), lr=0.1) if given == "optimizer" else None
    run = watch(outbox := KeptOutbox(), model=net if given == "model" else None)
    net(torch.ones(2, 3)).mean().backward()
    (kept or torch.optim.SGD(net.parameters(), lr=0.1)).step()
    run.finish()
    assert len(outbox.items) == 1
    assert outbox.events("attached")[0].get("model", {}).get("parameters", 0) == 0
