"""Train with frameworks and write the comparison into docs/reference/frameworks.md.

``python -m tests.real_trainers.table "Ignite, Lightning Fabric"`` writes only the rows of these.
``--cost`` writes no row, and prints what the hook adds to a step, for docs/internals/overhead.md.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.conftest import Tower, tower_in
from tests.hook.ingest_server import closed_port
from tests.real_trainers.claims import IntegratedTrainer, LaunchedTrainer, RealTrainer
from tests.real_trainers.comparison import ROOT, Comparison, differences

PAGE = ROOT / "docs" / "reference" / "frameworks.md"
BEGIN, END = "<!-- table: make real-trainers -->", "<!-- end of the table -->"
HEADINGS = ["Framework", "Version", "Steps", "Loss", "Gradient norm", "Learning rate", "Loss scale"]
HEADINGS += ["Config", "Planned steps", "Epochs", "Evaluations", "Two ranks", "Weights", "Fault caught"]
HEADINGS += ["Notes"]
NONE = "–"


def trainers() -> Iterator[type[RealTrainer]]:
    """Yield the test class of each framework, by the names of their files."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.real_trainers.{path.stem}")
        yield from (
            one for name, one in vars(module).items() if name.startswith("Test") and "training" in vars(one)
        )


def row(trainer: type[RealTrainer], compared: Comparison) -> list[str]:
    """Return the cells of one framework."""
    steps = compared.recorded("healthy").steps()
    recorded = "equal" if steps == list(range(len(compared.own("healthy")["loss"]))) else "differ"
    rule, step = trainer.caught
    caught = trainer.caught in compared.recorded("broken").fired
    return [
        trainer.framework,
        compared.logs["version"],
        recorded,
        compared_values(compared, "loss"),
        norms(trainer, compared),
        compared_values(compared, "lr"),
        compared_values(compared, "scale"),
        *reported(trainer, compared),
        ranks(trainer, compared),
        "identical" if all(map(compared.weights_are_equal, compared.logs["plain"])) else "differ",
        f"`{rule}`, step {step}" if caught else "no",
        trainer.notes or NONE,
    ]


def reported(trainer: type[RealTrainer], compared: Comparison) -> list[str]:
    """Return what the integration reports: configuration, planned steps, epochs and evaluations, as words."""
    if not issubclass(trainer, IntegratedTrainer):
        return [NONE] * 4
    run, log = compared.recorded("healthy"), compared.logs["watched"]["healthy"]
    name, value = log["setting"]
    own = compared.evaluated("healthy")
    differing = [len(differences(own[name], run.series(f"val/{name}"))) for name in own]
    return [
        "recorded" if compared.configured("healthy", name) == value else "differs",
        outcome([run.row["planned_steps"] != log["planned"]]),
        outcome([run.epochs != sorted(set(run.epochs))]).replace("equal", "events") if run.epochs else NONE,
        outcome(differing),
    ]


def compared_values(compared: Comparison, name: str) -> str:
    """Return whether every value of a series equals the log of the framework, as a word."""
    cases = [case for case in compared.logs["plain"] if name in compared.own(case)]
    return outcome([len(compared.differences(case, name)) for case in cases])


def norms(trainer: type[RealTrainer], compared: Comparison) -> str:
    """Return whether the recorded norms equal those of the framework, as a word."""
    own = compared.own("healthy").get("grad_norm")
    found = compared.recorded("healthy").series("grad_norm")
    if own is None:
        return "recorded, not logged by it" if found else "none"
    word = outcome([len(differences({step: own.get(step, 0.0) for step in found}, found))])
    return word + (f", every {trainer.norm_every}th step" if trainer.norm_every > 1 else "")


def outcome(counts: list[int]) -> str:
    """Return a word for the numbers of differing values."""
    if not counts:
        return NONE
    return "equal" if not sum(counts) else f"{sum(counts)} differ"


def ranks(trainer: type[RealTrainer], compared: Comparison) -> str:
    """Return whether two ranks were one run, as a word."""
    if not issubclass(trainer, LaunchedTrainer):
        return NONE
    run, _ = compared.ranks(trainer.launcher.format(port=closed_port()).split())
    return "one run" if run.ranks == {(1, 0), (1, 1)} else f"{sorted(run.ranks)}"


def rows(tower: Tower, folder: Path, framework: str) -> Iterator[list[str]]:
    """Train with one framework; yield its cells, and those of the others as they are."""
    present = {cells[0]: cells for cells in cells_of(PAGE.read_text("utf-8"))}
    for trainer in trainers():
        if trainer.framework == framework:
            yield row(trainer, Comparison(tower, trainer.training, folder, trainer.packages))
        elif trainer.framework in present:
            yield present[trainer.framework]


def cost(tower: Tower, folder: Path, framework: str) -> str:
    """Train with one framework in pairs, without and with the hook; return what the hook adds, as words."""
    (trainer,) = (one for one in trainers() if one.framework == framework)
    return f"{framework}: {Comparison(tower, trainer.training, folder, trainer.packages).cost()}"


def cells_of(page: str) -> list[list[str]]:
    """Return the rows of the page's table, without its headings."""
    block = page.partition(BEGIN)[2].partition(END)[0]
    return [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("|")][2:]


def table(cells: Iterable[list[str]]) -> str:
    """Return the table, and when and with which torch it was made."""
    lines = [f"| {' | '.join(line)} |" for line in (HEADINGS, ["---"] * len(HEADINGS), *cells)]
    today = datetime.now(UTC).date().isoformat()
    return "\n".join([*lines, "", f"Generated on {today} with torch {version('torch')} on a CPU."])


def wanted(text: str) -> list[str]:
    """Return the frameworks that are named, separated by commas, or all.

    Raises:
        SystemExit: There is no test of one of them.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [trainer.framework for trainer in trainers()]
    if unknown := [name for name in names if name not in known]:
        expected = f"Expected names of {', '.join(known)}, separated by commas."
        raise SystemExit(f"Unknown framework: {', '.join(unknown)}. {expected}")
    return names or known


def write(cells: Iterable[list[str]]) -> None:
    """Replace the table of the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(cells)}\n{END}{rest.partition(END)[2]}", "utf-8")


def main() -> None:
    """Replace the table of the page, or the rows of the frameworks that are named, or print their cost."""
    is_cost = "--cost" in sys.argv
    names = wanted(" ".join(word for word in sys.argv[1:] if word != "--cost"))
    with tempfile.TemporaryDirectory() as name, tower_in(Path(name)) as tower:
        for framework in names:
            if is_cost:
                print(cost(tower, Path(name), framework), flush=True)
            else:
                write(list(rows(tower, Path(name), framework)))


if __name__ == "__main__":
    main()
