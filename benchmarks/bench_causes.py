"""Count how often the diagnosis names the right cause first: like symptoms, swapped causes.

The trainings of ``tests/scenarios/causes/faults.py``, with each of the seeds in ``SEEDS`` (default: 0).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.scenarios.causes.faults import SCENARIOS, by_symptom, training
from tests.scenarios.causes.judging import named
from tests.scenarios.evaluation import Variant, evaluated, trained, using


def main() -> None:
    """Print one line per symptom, and each diagnosis that does not name the right cause as it should.

    Where the records cannot tell two causes apart, one sentence should name both.
    """
    seeds = [int(each) for each in os.environ.get("SEEDS", "0").split(",")]
    places: dict[str, Counter[str]] = {}
    wrong = []
    for seed in seeds:
        with using(Variant(seed)):
            for scenario in SCENARIOS:
                found = named(scenario, evaluated(trained(training(scenario.fault))))
                place = "both" if scenario.either and found.place == 2 else str(found.place)
                places.setdefault(scenario.symptom, Counter())[place] += 1
                if place not in ("1", "both"):
                    wrong.append(f"seed {seed}, {scenario}: {found.rule}: {' | '.join(found.texts)}")
    print(f"| symptom | causes | trainings | first right | names both | in the first two |\n|{'---|' * 6}")
    for symptom, mine in by_symptom(SCENARIOS).items():
        print(row(symptom, len(mine), places[symptom]))
    print(row("all", len(SCENARIOS), sum(places.values(), Counter[str]())))
    print("\n".join(wrong))


def row(symptom: str, causes: int, counts: Counter[str]) -> str:
    """Return a line of the table from the number of trainings by place."""
    first, both, second = counts["1"], counts["both"], counts["2"]
    return f"| {symptom} | {causes} | {counts.total()} | {first} | {both} | {first + both + second} |"


if __name__ == "__main__":
    main()
