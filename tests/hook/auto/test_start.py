"""``tocsin run``: a script is watched without a line of code, and notices nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.conftest import Tower, wait_for
from tests.hook.auto.untouched import STEPS
from tests.hook.launched import free_port
from tests.matrix import LONG, represented
from tocsin.cli.run_command import watched

SCRIPT = str(Path(__file__).with_name("untouched.py"))
OUTER = """
import os, runpy, sys
command = [{python!r}, {script!r}, "--lr", "0.1"]
if {how!r} == "exec":
    os.execv(command[0], command)
child = os.fork()
if child == 0:
    os.setsid()
    sys.argv = command[1:]
    runpy.run_path({script!r}, run_name="__main__")
elif {how!r} == "fork":
    os.waitpid(child, 0)
"""
HOOKED = """
import sys
sys.path.insert(0, {folder!r})
sys.addaudithook(lambda event, arguments: None)
sys.excepthook = lambda kind, error, trace: print("their hook:", kind.__name__)
import untouched
untouched.train(0, 0.1, 0)
raise ValueError("no more data")
"""
PARENT = """
import multiprocessing, sys
sys.path.insert(0, {folder!r})
import untouched
if __name__ == "__main__":
    untouched.train(0, 0.1, 0)
    starter = multiprocessing.get_context({method!r})
    children = [starter.Process(target=untouched.train, args=(0, 0.1, 0)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    sys.exit(max(child.exitcode for child in children))
"""
POOL = """
import multiprocessing, sys
sys.path.insert(0, {folder!r})
import untouched
if __name__ == "__main__":
    if {is_shared}:
        untouched.train(0, 0.1, 0)
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        pool.apply(untouched.train, (0, 0.1, 0))
"""
FORKED = """
import os, sys
sys.path.insert(0, {folder!r})
import untouched
untouched.train(0, 0.1, 0)
if os.fork():
    os.wait()
else:
    untouched.train(0, 0.1, 0)
    untouched.train(0, 0.1, 0)
"""
RUN = (sys.executable, "-m", "tocsin.cli", "run")
Done = subprocess.CompletedProcess[str]


def execute(*command: str, **environ: str) -> Done:
    """Run a command to its end."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | environ
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def address(tower: Tower) -> dict[str, str]:
    """Return the variables with which a training reports to ``tower``."""
    spool = str(tower.directory / "spool")
    return {"TOCSIN_URL": tower.base, "TOCSIN_TOKEN": tower.token, "TOCSIN_SPOOL_DIR": spool}


def the_run(tower: Tower, name: str, state: str = "finished") -> dict[str, Any]:
    """Return the only run of that name once it has ended."""

    def ended() -> dict[str, Any] | None:
        (row,) = [one for one in tower.get("/runs")["items"] if one["name"] == name] or [None]
        return tower.get(f"/runs/{row['id']}") if row and row["state"] == state else None

    found: dict[str, Any] = wait_for(ended, f"the run {name}")
    return found


def test_a_script_is_watched_and_notices_nothing(shared_tower: Tower) -> None:
    """Started by another program, it has all steps and its arguments; output, exit status and weights are
    the script's own."""
    alone = execute(sys.executable, SCRIPT, "--lr", "0.1")
    line = f"{sys.executable} {SCRIPT} --lr 0.1; exit $?"
    options = ("--project", "auto", "--name", "auto-alone", "--tag", "a", "--tag", "b")
    done = execute(*RUN, *options, "sh", "-c", line, **address(shared_tower))
    assert (done.stdout, done.returncode) == (alone.stdout, 3)
    run = the_run(shared_tower, "auto-alone", "failed")
    records = shared_tower.records(run["id"])
    assert [one["step"] for one in records if "loss" in one["values"]] == list(range(STEPS))
    assert {one["values"]["scale"] for one in records if "scale" in one["values"]} == {8.0}
    assert (run["project"], run["config"]) == ("auto", {"lr": 0.1, "spawn": 0})
    assert sorted(run["tags"]) == ["a", "b"]


@LONG
def test_a_progress_bar_made_before_the_training_is_in_the_log(shared_tower: Tower, tmp_path: Path) -> None:
    """It keeps the ``write`` that the stream had then."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nimport torch\n"
        "write = sys.stderr.write\n"
        "net = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(4):\n"
        "    net(torch.ones(2)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
        "    write(f'\\r{25 * (step + 1)}%')\n"
        "write('\\n')\n"
    )
    done = execute(*RUN, "--name", "bar", sys.executable, str(script), **address(shared_tower))
    assert (done.returncode, "75%" in done.stderr) == (0, True)
    with tocsin.Api(shared_tower.base, shared_tower.token) as api:
        lines = [
            line.text for line in api.console(the_run(shared_tower, "bar")["id"]) if line.stream == "err"
        ]
    assert lines == ["100%"]


@LONG
def test_ranks_that_a_script_spawns_are_one_run(shared_tower: Tower) -> None:
    """Each child starts its part by itself, since its parent never trains."""
    command = (sys.executable, SCRIPT, "--lr", "0.1", "--spawn", str(free_port()))
    execute(*RUN, "--name", "auto-spawned", *command, **address(shared_tower))
    run = the_run(shared_tower, "auto-spawned")
    ranks = {(one["attempt"], one["rank"]) for one in shared_tower.records(run["id"])}
    assert ranks == {(1, 0), (1, 1)}


@LONG
@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=LONG)])
def test_children_of_a_script_that_trains_report_to_its_run(
    shared_tower: Tower, tmp_path: Path, method: str
) -> None:
    """The parent's run has begun, so theirs is a part of it, each with a rank after the parent's."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(folder=str(Path(SCRIPT).parent), method=method))
    done = execute(*RUN, "--name", f"auto-{method}", sys.executable, str(script), **address(shared_tower))
    assert done.returncode == 0, done.stderr
    records = shared_tower.records(the_run(shared_tower, f"auto-{method}")["id"])
    assert {one["rank"]: one["step"] for one in records if "loss" in one["values"]} == {0: 4, 1: 4, 2: 4}


@LONG
@pytest.mark.parametrize(
    ("method", "is_shared"), represented([("fork", True), ("spawn", True), ("spawn", False), ("fork", False)])
)
def test_a_worker_that_the_end_of_its_pool_terminates_has_not_failed(
    shared_tower: Tower, tmp_path: Path, method: str, is_shared: bool
) -> None:
    """``with Pool()`` ends its workers by SIGTERM, also those that wait for a lock, which nothing interrupts,
    or deliver their last records. They belong to the parent's run or not.
    """
    script = tmp_path / "pool.py"
    folder = str(Path(SCRIPT).parent)
    script.write_text(POOL.format(folder=folder, method=method, is_shared=is_shared))
    name = f"auto-pool-{method}-{is_shared}"
    done = execute(*RUN, "--name", name, sys.executable, str(script), **address(shared_tower))
    assert done.returncode == 0, done.stderr
    run = the_run(shared_tower, name)
    assert (run["last_step"], shared_tower.alerts(run["id"])) == (STEPS - 1, [])


@pytest.mark.parametrize("call", ["tocsin.watch('auto', name='auto-own')", pytest.param("pass", marks=LONG)])
def test_a_script_with_its_own_watch_has_one_run(shared_tower: Tower, tmp_path: Path, call: str) -> None:
    """Its own run replaces that of ``tocsin run``; without one, ``tocsin.log`` starts the run."""
    script = tmp_path / "own.py"
    script.write_text(f"import tocsin\n{call}\nfor step in range(3): tocsin.log(loss=float(step))\n")
    done = execute(*RUN, "--name", "auto-own", str(script), **address(shared_tower))
    assert done.returncode == 0, done.stderr
    assert the_run(shared_tower, "auto-own")["last_step"] == 2


def test_what_a_script_reports_before_its_training_is_kept(shared_tower: Tower, tmp_path: Path) -> None:
    """``tocsin.config`` and ``tocsin.alert`` start the run, as ``tocsin.log`` does."""
    for name, call in (("config", "config.update({'lr': 0.5})"), ("alert", "alert('no data')")):
        script = tmp_path / "early.py"
        script.write_text(f"import tocsin\ntocsin.{call}\ntocsin.log(loss=1.0)\n")
        execute(*RUN, "--name", f"early-{name}", sys.executable, str(script), **address(shared_tower))
    assert the_run(shared_tower, "early-config")["config"] == {"lr": 0.5}
    (alert,) = shared_tower.alerts(the_run(shared_tower, "early-alert")["id"])
    assert "no data" in alert["summary"]


def test_a_process_without_torch_imports_nothing_more() -> None:
    """Neither a dependency nor the rest of the hook."""
    script = "import sys; print(sorted(one for one in sys.modules if one.split('.')[0] in %r))"
    names = ("tocsin", "msgspec", "websockets", "socket", "logging", "asyncio")
    done = execute(*RUN, sys.executable, "-c", script % (names,))
    loaded = ["api", "api.no_run", "auto", "auto.start", "core", "core.process_state", "lifecycle"]
    loaded += ["lifecycle.child_processes", "lifecycle.first_training", "lifecycle.import_hook"]
    loaded += ["mirrors", "mirrors.options"]
    assert done.stdout.strip() == str(sorted(["tocsin", *(f"tocsin.{one}" for one in loaded)]))


@pytest.mark.parametrize("given", ["", ":/lib", "/lib::/more:"])
def test_the_path_of_the_script_is_its_own(given: str) -> None:
    """The folder that ``tocsin run`` adds is not on ``sys.path``, and the current folder stays if it is."""
    show = (sys.executable, "-c", "import sys; print(sys.path)")
    assert execute(*RUN, *show, PYTHONPATH=given).stdout == execute(*show, PYTHONPATH=given).stdout


def test_another_sitecustomize_is_still_imported(tmp_path: Path) -> None:
    """Companies configure their Python in it."""
    (tmp_path / "sitecustomize.py").write_text("here = 'theirs'\n")
    show = (sys.executable, "-c", "import sitecustomize; print(sitecustomize.here)")
    assert execute(*RUN, *show, PYTHONPATH=str(tmp_path)).stdout == "theirs\n"


@LONG
def test_ranks_of_torchrun_are_one_run(shared_tower: Tower) -> None:
    """The launcher itself trains nothing, so it reports nothing."""
    launch = ("-m", "torch.distributed.run", f"--master-port={free_port()}", "--nproc-per-node=2")
    command = (sys.executable, *launch, SCRIPT, "--lr", "0.1")
    execute(*RUN, "--name", "auto-torchrun", *command, **address(shared_tower))
    run = the_run(shared_tower, "auto-torchrun", "failed")
    assert {(one["attempt"], one["rank"]) for one in shared_tower.records(run["id"])} == {(1, 0), (1, 1)}


@LONG
@pytest.mark.parametrize("how", represented(["exec", "daemon", "fork"]))
def test_a_script_that_trains_in_another_process_has_one_run(
    shared_tower: Tower, tmp_path: Path, how: str
) -> None:
    """A forked child, the program that replaces the script, and a daemon that outlives it."""
    script = tmp_path / "outer.py"
    script.write_text(OUTER.format(how=how, python=sys.executable, script=SCRIPT))
    execute(*RUN, "--name", f"auto-{how}", sys.executable, str(script), **address(shared_tower))
    run = the_run(shared_tower, f"auto-{how}", "failed")
    steps = [one["step"] for one in shared_tower.records(run["id"]) if "loss" in one["values"]]
    assert steps == list(range(STEPS))


@LONG
def test_a_child_that_is_forked_after_a_training_has_its_own_run(shared_tower: Tower, tmp_path: Path) -> None:
    """As a daemon that trains after a warm-up."""
    script = tmp_path / "forked.py"
    script.write_text(FORKED.format(folder=str(Path(SCRIPT).parent)))
    execute(*RUN, "--name", "auto-forked", sys.executable, str(script), **address(shared_tower))

    def steps() -> list[int]:
        rows = [one for one in shared_tower.get("/runs")["items"] if one["name"] == "auto-forked"]
        return sorted(one["last_step"] for one in rows if one["state"] == "finished")

    assert wait_for(lambda: len(steps()) == 2 and steps(), "two runs") == [STEPS - 1, 2 * STEPS - 1]


def test_hooks_of_the_script_still_run(shared_tower: Tower, tmp_path: Path) -> None:
    """An excepthook and an audit hook that it installs, and the exit status of its exception."""
    script = tmp_path / "hooked.py"
    script.write_text(HOOKED.format(folder=str(Path(SCRIPT).parent)))
    done = execute(*RUN, "--name", "auto-hooked", sys.executable, str(script), **address(shared_tower))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "their hook: ValueError")
    assert the_run(shared_tower, "auto-hooked", "failed")["error"]["type"] == "ValueError"


def test_a_python_without_tocsin_says_how_to_install_it(tmp_path: Path) -> None:
    """Only where torch is imported, and the script runs all the same."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    (tmp_path / "torch.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("print('trained')\n")
    assert execute(python, str(script), **watched({})).stderr == ""
    script.write_text("import torch\nprint('trained')\n")
    done = execute(python, str(script), **watched({}))
    assert (done.stdout, done.returncode) == ("trained\n", 0)
    assert f"{python} -m pip install tocsin" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        ("train.py", "print('trained')", 0o644),
        ("train.py", "print('trained')", 0o755),
        ("train.sh", "echo trained", 0o755),
    ],
)
@pytest.mark.parametrize("folder", ["", "./"])
def test_a_script_without_an_interpreter_line_is_run_as_in_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, mode: int, folder: str
) -> None:
    """A Python file by this Python, anything else by ``sh``; a file in this folder needs no ``./``."""
    (tmp_path / name).write_text(text + "\n")
    (tmp_path / name).chmod(mode)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert execute(*RUN, folder + name).stdout == "trained\n"


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (["-I"], "tocsin enable"),
        (["-W", "ignore", "-uE"], "tocsin enable"),
        (["-IS"], "tocsin.watch"),
        (["-X", "dev", "-Werror"], ""),
    ],
)
def test_an_option_without_the_hook_is_warned_of(options: list[str], warned: str) -> None:
    """Python then does not load it; the command runs as it is."""
    command = ["-m", "tocsin.cli", "run", sys.executable, *options, "-c", "print('-I')", "-S"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert done.stdout == "-I\n"
    assert warned in done.stderr
    assert bool(done.stderr) == bool(warned)


def test_a_signal_ends_the_command_itself() -> None:
    """There is no process in between that could swallow it."""
    assert execute(*RUN, "sh", "-c", "kill -TERM $$").returncode == -15


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ([], 2, "No command was given"),
        (["no-such-command"], 127, "no-such-command: command not found"),
        (["/"], 126, "/ cannot be executed"),
    ],
)
def test_a_command_that_cannot_run_has_the_status_of_a_shell(
    command: list[str], status: int, text: str
) -> None:
    """And a sentence that says why."""
    done = execute(*RUN, *command)
    assert done.returncode == status
    assert text in done.stderr
