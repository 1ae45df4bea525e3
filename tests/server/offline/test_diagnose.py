"""``tocsin-server diagnose`` as a user and as a script run it."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import re
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.importers import open_log
from tocsin_server.cli.main import app
from tocsin_server.core.models import Severity
from tocsin_server.offline.replay import evaluate_log

BROKEN = "".join(f"step {step}: loss = {'nan' if step > 99 else 0.5}\n" for step in range(110))
HEALTHY = "".join(f"step {step}: loss = {2 - step / 200}\n" for step in range(200))


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A log whose loss ends as NaN."""
    path = tmp_path / "broken.log"
    path.write_text(BROKEN)
    return path


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """A log without problems."""
    path = tmp_path / "healthy.log"
    path.write_text(HEALTHY)
    return path


def run(*arguments: str | Path) -> tuple[int, str]:
    """Return exit status and output of ``tocsin-server diagnose``."""
    result = CliRunner().invoke(app, ["diagnose", *map(str, arguments)])
    return result.exit_code, result.stdout


def test_json_has_the_shape_of_the_contract(broken: Path) -> None:
    """Strict JSON with every documented key, evidence and remedies."""
    status, out = run(broken, "--json")
    (file,) = json.loads(out, parse_constant=pytest.fail)["files"]
    assert status == 0
    assert (file["path"], file["format"], file["records"]) == (str(broken), "key=value lines", 110)
    (alert,) = [alert for alert in file["alerts"] if alert["rule"] == "nonfinite-loss"]
    assert (alert["severity"], alert["onset_step"], alert["fired_step"]) == ("critical", 100, 100)
    assert alert["resolved_step"] is None
    assert alert["series"] == "loss"
    assert alert["summary"]
    assert alert["evidence"][0].keys() == {"name", "value", "unit", "step"}
    assert alert["causes"]
    assert all(remedy.keys() == {"text", "code"} for remedy in alert["remedies"])


def test_a_folder_is_summed_up_and_the_worst_runs_are_explained(tmp_path: Path) -> None:
    """Each run of a tree once; the healthy ones are only counted."""
    for name, text in (("a/train.log", HEALTHY), ("b/train.log", BROKEN), ("c/notes.md", "step back\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    status, out = run(tmp_path)
    first, second, *_ = out.splitlines()
    assert (status, first) == (0, "2 runs, 1 with problems:")
    assert second.startswith(f"  {tmp_path / 'b' / 'train.log'}: ")
    assert out.count("Likely cause") == 1
    assert len(json.loads(run(tmp_path, "--json")[1])["files"]) == 2


def test_a_folder_without_logs_is_an_error(tmp_path: Path) -> None:
    """It says which, and what is known."""
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path)])
    assert (result.exit_code, f"{tmp_path}: no training log in this folder" in result.stderr) == (2, True)
    assert "MLflow" in result.stderr


def test_the_text_is_a_report_to_paste(broken: Path) -> None:
    """What was read, the signals with their NaN, an alert per line, cause, timeline and remedies."""
    status, out = run(broken)
    assert status == 0
    assert "key=value lines, 110 records, steps 0 to 109" in out
    assert "×" in out
    assert "10 NaN" in out
    assert "critical  nonfinite-loss  loss  since step 100 (fired at 100)" in out
    heads = (
        "Loss is NaN or infinite.",
        "Likely cause: ",
        "First action: ",
        "  Evidence",
        "  Other explanations",
        "How to confirm: ",
    )
    places = [out.index(head) for head in heads]
    assert places == sorted(places)


def test_the_same_log_gives_the_same_report(broken: Path) -> None:
    """Byte for byte."""
    assert run(broken) == run(broken)


def test_a_healthy_log_is_reported_as_such(healthy: Path) -> None:
    """The report says that nothing was found, and nothing else."""
    status, out = run(healthy, "--fail-on", "warning")
    assert status == 0
    assert "Nothing found." in out


def test_a_loss_that_ends_far_above_its_lowest_level_is_not_nothing(tmp_path: Path) -> None:
    """Too few records for a rule: a rough start, a low level, then a climb."""
    losses = [6.7, 2.1, 2.0, 1.9] * 3 + [0.15] * 20 + [0.5, 0.8, 1.2]
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},{loss:.7f}\n" for step, loss in enumerate(losses)))
    out = run("diagnose", str(log))[1]
    assert "the loss ends at about 1.2, 8 times its lowest level (0.15)" in " ".join(out.split())


@pytest.mark.parametrize(("severity", "status"), [("warning", 1), ("critical", 1)])
def test_the_exit_status_can_fail_a_pipeline(severity: str, status: int, broken: Path, healthy: Path) -> None:
    """If any of the files has a finding of that severity."""
    assert run(healthy, broken, "--fail-on", severity)[0] == status


def test_a_file_that_cannot_be_read_is_status_2(broken: Path, tmp_path: Path) -> None:
    """The error has the reason, and the other files are diagnosed."""
    (tmp_path / "poem.txt").write_text("The sea is calm to-night.\n")
    status, out = run(tmp_path / "poem.txt", broken, "--json")
    poem, log = json.loads(out)["files"]
    assert status == 2
    assert "not a known training log" in poem["error"]
    assert log["records"] == 110


def test_unread_lines_and_short_excerpts_are_reported(tmp_path: Path) -> None:
    """The report says how many lines could not be read, which ones, and how that affects the result."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"step": 1, "loss": 1.0}\n{"step": 2, "lo\n{"step": 3, "loss": NaN}\n')
    _, out = run(path, "--json")
    (file,) = json.loads(out)["files"]
    assert file["unread_lines"] == {"count": 1, "first": [{"line": 2, "why": "a JSON object was expected"}]}
    assert any("Only 2 training records" in note for note in file["notes"])
    assert "1 line could not be read (number 2)." in file["notes"]
    assert file["alerts"][0]["rule"] == "nonfinite-loss"


def test_standard_input_and_pipes_are_read_whole(broken: Path, tmp_path: Path) -> None:
    """Pipes can be read only once, and format detection loses no data."""
    wanted = json.loads(run(broken, "--json")[1])["files"][0]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = BROKEN.encode()
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    piped = json.loads(run(pipe, "--json")[1])["files"][0]
    writer.join()
    given = CliRunner().invoke(app, ["diagnose", "-", "--json"], input=text)
    assert piped == wanted | {"path": str(pipe)}
    assert json.loads(given.stdout)["files"][0] == wanted | {"path": "-"}


def test_a_truncated_archive_is_evaluated_up_to_its_end(tmp_path: Path) -> None:
    """The report says so."""
    lines = "".join(f"step={step} loss={random.Random(step).random()}\n" for step in range(9000))
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(lines.encode())[:-1000])
    status, out = run(path)
    assert status == 0
    assert "Note: The file is truncated: Compressed file ended" in out


def test_launches_of_one_file_are_distinguished(tmp_path: Path) -> None:
    """Each alert names its run, in text and JSON."""
    path = tmp_path / "twice.log"
    path.write_text(HEALTHY + BROKEN)
    assert "nonfinite-loss  loss  attempt 2, since step 100" in run(path)[1]
    (file,) = json.loads(run(path, "--json")[1])["files"]
    assert [alert["attempt"] for alert in file["alerts"] if alert["rule"] == "nonfinite-loss"] == [2]


@pytest.mark.parametrize("numbers", [[1], [3], [1, 0], [1, 2]])
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_the_attempts_of_an_export_are_counted(tmp_path: Path, numbers: list[int], form: str) -> None:
    """The server numbers attempts from 1, and late ones 0 and below; each attempt is one run of the file."""
    path = tmp_path / f"export.{form}"
    head = ["seq", "writer", "attempt", "rank", "step", "time_ms", "time_ns", "arrival"]
    rows = [
        [step, writer, number, 0, step, step * 1e3, step * 10**9, 1]
        for writer, number in enumerate(numbers)
        for step in range(100)
    ]
    if form == "csv":
        lines = [",".join([*head, "loss"]), *(",".join(map(str, [*row, 0.5])) for row in rows)]
    else:
        lines = [json.dumps(dict(zip(head, row, strict=True)) | {"values": {"loss": 0.5}}) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    (file,) = json.loads(run(path, "--json")[1])["files"]
    assert (file["attempts"], file["records"]) == (len(numbers), 100 * len(numbers))
    assert (f", {len(numbers)} attempts\n" in run(path)[1]) == (len(numbers) > 1)


def test_one_episode_is_one_story(tmp_path: Path) -> None:
    """A rate that explodes, followed by norm and loss: one cause in full, not one per alert."""
    noise = random.Random(1)
    loss = [1 + noise.gauss(0, 0.02) for _ in range(300)] + [2.0, 40.0, 4e6, math.inf, math.inf]
    norm = [1 + noise.gauss(0, 0.05) for _ in range(299)] + [9.0, 60.0, 4e3, 1e8, math.inf, math.inf]
    rows = zip(range(305), loss, norm, strict=True)
    path = tmp_path / "runaway.log"
    path.write_text(
        "".join(f"step={step} loss={a} grad_norm={b} lr={1e-3 * 1.01**step}\n" for step, a, b in rows)
    )
    out = run(path)[1]
    assert len(evaluate_log(open_log(path)).alerts) > 2
    assert out.count("Likely cause: ") == 1
    assert "Likely cause: Likely" not in out
    assert "Related alerts" in out


@pytest.fixture(scope="module")
def spiking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with fourteen spikes of 8 records, at irregular intervals, and twenty columns."""
    noise = random.Random(1)
    starts = {step + back for step in range(400, 6000, 400) for back in [noise.randrange(200)]}
    loss = [1 + noise.gauss(0, 0.02) for _ in range(6600)]
    for start in starts:
        loss[start : start + 8] = [6.0] * 8
    columns = [f"metric{number}={number}" for number in range(20)]
    lines = [f"step={step} loss={value} {' '.join(columns)}\n" for step, value in enumerate(loss)]
    path = tmp_path_factory.mktemp("spiking") / "spikes.log"
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def shortened(spiking: Path) -> str:
    """What is printed about it."""
    return run(spiking)[1]


def test_one_story_fits_on_one_page(shortened: str) -> None:
    assert shortened.count("\n") <= 40
    assert "Shortened. Pass --full" in shortened


def test_repeated_findings_fold(shortened: str) -> None:
    joined = " ".join(shortened.split("\n"))
    assert re.search(r"loss-spike  .* and \d+ more since step [\d,]+", joined), shortened


def test_full_output_has_every_alert(spiking: Path) -> None:
    out = run(spiking, "--full")[1]
    assert out.count("(fired at ") == len(evaluate_log(open_log(spiking)).alerts) > 4
    assert "Shortened" not in out


LOGS = os.environ.get("TOCSIN_REAL_LOGS", "")


@pytest.mark.skipif(not LOGS, reason="TOCSIN_REAL_LOGS names no folder of real logs")
def test_real_logs_are_read_to_their_normalized_records() -> None:
    """Every training loss of each original, in order and exact."""
    from tocsin.importers import LogRecord, open_log

    for folder in sorted(path for path in Path(LOGS).iterdir() if path.is_dir()):
        made = {"PROVENANCE.txt", "label.json", "normalized.jsonl"}
        originals = [path for path in folder.iterdir() if path.name not in made]
        for original in originals:
            wanted = [json.loads(line) for line in (folder / "normalized.jsonl").read_text().splitlines()]
            read = [item.values for item in open_log(original).items() if isinstance(item, LogRecord)]
            losses = [values["loss"] for values in read if "loss" in values]
            assert losses == pytest.approx([row["loss"] for row in wanted if "loss" in row], nan_ok=True)


def test_four_processes_in_one_log_are_reported(tmp_path: Path) -> None:
    """Each line four times, by independent processes: a warning, with the cause first."""
    file = tmp_path / "train.log"
    file.write_text("".join(f"step {step} loss {2 - step / 600:.4f} lr 0.1\n" * 4 for step in range(120)))
    result = evaluate_log(open_log(file))
    (alert,) = [one for one in result.alerts if one.severity is not Severity.INFO]
    assert (alert.rule, "4 processes" in alert.summary) == ("duplicate-steps", True)
    assert "reports as the only one" in alert.diagnosis.cause
