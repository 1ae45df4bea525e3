"""How a process ends is how its run ends, proved in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import tocsin
from tests.hook.captured import KeptOutbox, KeptSender, watch
from tocsin.ending import error_facts

PROLOGUE = """
import os, sys, atexit
class Box:
    def put(self, item): print("record", item[0], flush=True)
    def put_event(self, kind, t, step, data): pass
class Sender:
    def start(self): pass
    def forget(self): print("forgotten", flush=True)
    def close(self, *, state="finished", error=None):
        print("closed", state, (error or {}).get("type"), (error or {}).get("message"), flush=True)
import inspect, tocsin
from tocsin.beginning import begin
def watch(**options):
    given = {k: p.default for k, p in inspect.signature(tocsin.watch).parameters.items() if k != "project"}
    return begin("p", outbox=Box(), sender=Sender(), **{**given, "patch": False, **options})
"""


def _script(body: str, **environment: str) -> tuple[int, list[str], str]:
    """Runs a script; (exit code, lines of stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_script_that_ends_finishes_its_run() -> None:
    """Without any call the run is finished at exit."""
    assert _script("watch()")[:2] == (0, ["closed finished None None"])


def test_an_uncaught_exception_fails_the_run_and_is_still_printed() -> None:
    """The run failed with type and message, and Python's own traceback comes all the same."""
    code, lines, error = _script("""
        run = watch()
        run.log(a=1.0)
        raise ValueError("out of <data>")
    """)
    assert (code, lines) == (1, ["record 0", "closed failed ValueError out of <data>"])
    assert error.rstrip().endswith("ValueError: out of <data>")


def test_a_script_that_chains_the_excepthook_is_respected() -> None:
    """Hooks set before and after the watch are both called."""
    _, lines, _ = _script("""
        sys.excepthook = lambda *error: print("before")
        watch()
        ours = sys.excepthook
        sys.excepthook = lambda *error: (print("after"), ours(*error))
        1 / 0
    """)
    assert lines == ["after", "closed failed ZeroDivisionError division by zero", "before"]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("raise KeyboardInterrupt", "closed failed KeyboardInterrupt "),
        ("sys.exit(0)", "closed finished None None"),
        ("sys.exit(3)", "closed failed SystemExit 3"),
        ("pass", "closed finished None None"),
    ],
)
def test_leaving_a_with_block_ends_the_run(body: str, line: str) -> None:
    """A with block ends its run as it was left."""
    _, lines, _ = _script(f"with watch():\n    {body}")
    assert lines == [line]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_says_nothing() -> None:
    """In a forked child every call does nothing, and the run stays the parent's."""
    _, lines, _ = _script("""
        run = watch()
        run.log(a=1.0)
        child = os.fork()
        run.log(a=1.0, step=5)
        run.step(loss=1.0)
        if not child:
            run.finish()
            tocsin.log(a=1.0)
            sys.exit(0)
        os.waitpid(child, 0)
    """)
    assert [line for line in lines if line != "forgotten"] == [
        "record 0",
        "record 5",
        "record 0",
        "closed finished None None",
    ]


def test_a_disabled_hook_imports_nothing() -> None:
    """With TOCSIN_DISABLE=1 every call works, and neither torch, msgspec nor a thread is there."""
    body = """
        run = tocsin.watch("p", config={"a": 1}, url="nonsense")
        with run, run.phase("eval"):
            run.log(a=1.0); tocsin.log(b=2.0); run.step(loss=1.0); run.evaluate(psnr=1.0, goal="max")
            run.event("x"); run.expect("y", steps=[1]); run.check(batch=[1.0]); run.batch(3); run.finish()
            assert run.on_alert(len) is len and run.on_alert("a")(len) is len
            run.load_state_dict(run.state_dict())
        print(sorted({"torch", "msgspec", "websockets", "tocsin.run", "tocsin.sender"} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", "import sys, tocsin\n" + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TOCSIN_DISABLE": "1"},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_finish_puts_the_excepthook_back() -> None:
    """With the last run's end sys.excepthook is what it was."""
    before = sys.excepthook
    one, two = watch(), watch()
    one.finish()
    assert sys.excepthook is not before
    two.finish()
    assert sys.excepthook is before
    assert tocsin._live == []


def test_error_facts_are_bounded() -> None:
    """Of a long message and a deep traceback the ends are kept."""

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise RuntimeError("x" * 100_000)

    with pytest.raises(RuntimeError) as caught:
        deep(100)
    facts = error_facts(caught.value)
    assert facts["type"] == "RuntimeError"
    assert len(facts["message"]) == 4_000
    assert 2 < len(facts["lines"]) <= 40
    assert facts["lines"][-1].startswith("RuntimeError: xxx")
    assert max(map(len, facts["lines"])) <= 400


def test_a_failed_run_says_so_to_its_sender() -> None:
    """``finish(error=...)`` is a failed run."""
    sender = KeptSender()
    watch(KeptOutbox(), sender).finish(error=ValueError("bad"))
    (state, error), *_ = sender.closed
    assert (state, error and error["message"]) == ("failed", "bad")
