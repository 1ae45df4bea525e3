"""What differs between two runs or two attempts, ranked by what may explain a failure. Pure functions.

A :data:`Setup` is what is known about an attempt, by source: its configuration, command line, commit,
packages, hardware. A source that was not recorded for one of the two is not compared, but named.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

LEAVES = 1000
"""Maximum number of settings of one mapping that are compared."""
LONGEST = 300
"""Maximum number of characters of a value that is shown."""
COMMIT = 12
"""Number of characters of a commit."""
FEWEST = 2
"""Number of failing and of healthy runs from which on counts are evidence."""

Setup = Mapping[str, Mapping[str, str]]
"""Source -> name of a setting -> its value as text. A source that was not recorded is missing."""


class Category(enum.StrEnum):
    """Kind of a difference, in the order in which they are shown if nothing else distinguishes them."""

    CONFIG = "config"
    SCHEDULE = "schedule"
    DATA = "data"
    CODE = "code"
    HARDWARE = "hardware"
    VERSIONS = "versions"


SOURCES = {
    "config": Category.CONFIG,
    "command": Category.CONFIG,
    "variables": Category.CONFIG,
    "length": Category.SCHEDULE,
    "optimizers": Category.SCHEDULE,
    "schedulers": Category.SCHEDULE,
    "scalers": Category.SCHEDULE,
    "data": Category.DATA,
    "git": Category.CODE,
    "script": Category.CODE,
    "gpus": Category.HARDWARE,
    "machine": Category.HARDWARE,
    "versions": Category.VERSIONS,
    "packages": Category.VERSIONS,
}
"""Source of a setup -> category of its differences."""
DIFF = "diff"
"""Source that holds the uncommitted changes themselves. It is not compared."""
UNCOMMITTED = "uncommitted changes"
"""A setting of the code. Absent if git took too long to find any."""
YES = "yes"
"""The setting without a digest: git took too long to read the changes."""
REPORTED = {
    "config": "configuration",
    "command": "command line",
    "git": "git commit",
    "gpus": "GPUs",
    "packages": "packages",
}
"""Sources that are named if they were not recorded, and how."""
_MOVING = frozenset(
    ("last_epoch", "best", "num_bad_epochs", "num_bad_epochs_limit", "cooldown_counter", "T_cur", "module")
)
"""Members of descriptions of optimizers and schedulers that change while training."""
_SENSITIVE = frozenset(
    (
        *("lr", "learning_rate", "weight_decay", "momentum", "betas", "beta1", "beta2", "eps", "warmup"),
        *("warmup_steps", "batch", "batch_size", "clip", "clip_norm", "max_norm", "max_grad_norm", "dtype"),
        *("grad_clip", "precision", "amp", "fp16", "bf16", "tf32", "init_scale", "growth_interval", "loss"),
        *("optimizer", "scheduler", "dropout", "accumulation", "accumulate_grad_batches", "class"),
    )
)
"""Last words of settings that often decide whether a training is stable."""
_RATES_OF, _RATES = ("optimizers", "schedulers"), ("lr", "initial_lr", "base_lrs")
"""Learning rates of optimizers and schedulers."""
_PLAIN = frozenset(("true", "false", "none", "null", ""))


@dataclass(frozen=True, slots=True)
class Counts:
    """In how many runs of the project a setting has its new value, of those that report the setting."""

    failing: int
    of_failing: int
    healthy: int
    of_healthy: int
    only_failing: bool = False
    """The setting differs in all failing runs and in no healthy run."""
    varies: bool = False
    """The setting differs between healthy runs too."""

    @property
    def text(self) -> str:
        """One sentence about the counts, or "" if they are too few."""
        if self.of_healthy < FEWEST or not self.of_failing:
            return ""
        if self.only_failing:
            return (
                f"Differs in all {self.of_failing} failing runs and in none of the {self.of_healthy} healthy "
                "runs of this project."
            )
        if self.varies:
            return "Also differs between healthy runs."
        if not self.healthy and self.of_failing < FEWEST:
            return f"None of the {self.of_healthy} healthy runs of this project has this value."
        failing = f"{self.failing} of {self.of_failing} failing"
        if not self.healthy:
            return f"{failing} runs and none of the {self.of_healthy} healthy runs have this value."
        return f"{failing} runs and {self.healthy} of {self.of_healthy} healthy runs have this value."

    @property
    def lift(self) -> float:
        """Share of the failing runs with the value minus that of the healthy runs; 0 if there are too few."""
        if self.of_healthy < FEWEST or not self.of_failing:
            return 0.0
        return self.failing / self.of_failing - self.healthy / self.of_healthy


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs. ``before`` or ``after`` is None if the setting does not exist there."""

    category: Category
    source: str
    name: str
    before: str | None
    after: str | None
    counts: Counts | None = None

    @property
    def shown(self) -> tuple[str | None, str | None]:
        """Both values, shortened to the part that differs."""
        return shortened(self.before, self.after)


def setup_of(
    config: Any, environment: Mapping[str, Any], *, planned_steps: int | None = None, machine: Any = None
) -> Setup:
    """Return the setup of a run or an attempt.

    Args:
        config: Its configuration; None if it was not recorded.
        environment: What the training process reported: versions, optimizers, commit, packages.
        planned_steps: Its expected length.
        machine: Further settings of its hardware: ``host``, ``world_size``.
    """
    found: dict[str, dict[str, str]] = {}
    if isinstance(config, Mapping):
        found["config"] = texts_of(config)
    if isinstance(environment.get("data"), Mapping):
        found["data"] = texts_of(environment["data"])
    for name in ("variables", "versions", "packages"):
        if isinstance(environment.get(name), Mapping):
            found[name] = {str(key): str(value) for key, value in environment[name].items()}
    for name, key in (("optimizers", ("name",)), ("scalers", ("name",)), ("schedulers", ("optimizer",))):
        if environment.get(name):
            found[name] = texts_of(_by_name(environment[name], key), f"{name.removesuffix('s')}.")
    if planned_steps is not None:
        found["length"] = {"planned steps": str(planned_steps)}
    command = environment.get("command")
    if isinstance(command, list) and command:
        found["script"] = {"script": value_text(command[0])}
        found["command"] = texts_of(_options(command[1:]))
    if isinstance(environment.get("git"), Mapping):
        found["git"] = _code(environment["git"])
        if environment["git"].get("diff"):
            found[DIFF] = {DIFF: str(environment["git"]["diff"])}
    gpus = {name: environment[name] for name in ("gpus", "driver") if environment.get(name)}
    if gpus:
        found["gpus"] = _gpus(gpus)
    if isinstance(machine, Mapping):
        found["machine"] = texts_of(machine)
    return found


def differences(before: Setup, after: Setup) -> list[Change]:
    """Return the settings that differ, of the sources that both report, in order of source and name."""
    found = []
    for source, category in SOURCES.items():
        if source not in before or source not in after:
            continue
        old, new = before[source], after[source]
        for name in sorted(old.keys() | new.keys()):
            values = old.get(name), new.get(name)
            if values[0] != values[1] and not (name == UNCOMMITTED and _is_unknown(values)):
                found.append(Change(category, source, name, *values))
    return _without_repetition(found)


def _is_unknown(uncommitted: tuple[str | None, str | None]) -> bool:
    """Return whether git had no time to find the changes of one run, or to read those of both."""
    return None in uncommitted or ("no" not in uncommitted and YES in uncommitted)


def not_recorded(before: Setup, after: Setup) -> tuple[str, ...]:
    """Return what could not be compared because one of the two or both did not report it, in words."""
    return tuple(words for source, words in REPORTED.items() if source not in before or source not in after)


def ranked(changes: Iterable[Change], failing: Sequence[Setup], healthy: Sequence[Setup]) -> list[Change]:
    """Return the changes with their counts over the project's runs, the most likely explanation first.

    First the settings that differ in all failing runs and in no healthy one; last those that differ between
    healthy runs too, such as a seed.
    """
    counted = [replace(each, counts=count(each, failing, healthy)) for each in changes]
    return sorted(counted, key=_place)


def count(change: Change, failing: Sequence[Setup], healthy: Sequence[Setup]) -> Counts:
    """Return in how many runs of a project a setting has its new value."""
    bad, good = _values(change, failing), _values(change, healthy)
    enough = len(bad) >= FEWEST and len(good) >= FEWEST
    same = all(value == change.after for value in bad) and change.after not in good
    apart = change.before not in bad and all(value == change.before for value in good)
    most = max((good.count(value) for value in set(good)), default=0)
    return Counts(
        failing=bad.count(change.after),
        of_failing=len(bad),
        healthy=good.count(change.after),
        of_healthy=len(good),
        only_failing=enough and (same or apart),
        varies=len(good) > FEWEST and 2 * most <= len(good),
    )


def likeness(one: Setup, other: Setup, names: tuple[str, str] = ("", "")) -> float:
    """Return the share of equal settings in two configurations; without any, whether the names are similar.

    Args:
        one: A setup.
        other: Another one.
        names: The names of both runs.
    """
    mine, theirs = one.get("config") or {}, other.get("config") or {}
    if not mine or not theirs:
        return float(stem(names[0]) == stem(names[1])) if mine == theirs else 0.0
    equal = sum(1 for name, value in mine.items() if theirs.get(name) == value)
    return equal / len(mine.keys() | theirs.keys())


_BETWEEN = " _-.:/#+=()[]"
"""Separators between a run's name and its repetition number."""


def stem(name: str) -> str:
    """Return a run's name without the trailing number of a repetition."""
    bare = name.rstrip("0123456789")
    return name if bare == name else bare.rstrip(_BETWEEN)


def leaves(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of at most ``LEAVES`` settings of each mapping. A list counts as one value."""
    items = config.items() if isinstance(config, Mapping) else ()
    for at, (name, value) in enumerate(items):
        if at >= LEAVES:
            return
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def texts_of(config: Any, path: str = "") -> dict[str, str]:
    """Return the settings of a mapping as text, by path."""
    return {name: value_text(value) for name, value in leaves(config, path)}


def value_text(value: Any) -> str:
    """Return a value as text; a string that looks like a number or a constant is quoted."""
    if not isinstance(value, str):
        return "none" if value is None else repr(value)
    return repr(value) if value.strip().lower() in _PLAIN or _number(value) is not None else value


def shortened(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Return both values with at most ``LONGEST`` characters, around the first difference."""
    longest = max(len(before or ""), len(after or ""))
    if longest <= LONGEST:
        return before, after
    same = next((at for at, (a, b) in enumerate(zip(before or "", after or "", strict=False)) if a != b), 0)
    start = max(0, same - 40)

    def cut(text: str | None) -> str | None:
        if text is None:
            return None
        end = "…" if len(text) > start + LONGEST else ""
        return ("…" if start else "") + text[start : start + LONGEST] + end

    return cut(before), cut(after)


def _values(change: Change, setups: Iterable[Setup]) -> list[str | None]:
    """Return the values of a setting in the runs that report its source."""
    return [setup[change.source].get(change.name) for setup in setups if change.source in setup]


def _place(change: Change) -> tuple[bool, bool, float, float, int, str]:
    counts = change.counts
    only, varies = bool(counts and counts.only_failing), bool(counts and counts.varies)
    lift = counts.lift if counts else 0.0
    word = change.name.rpartition(".")[2].lower().replace("-", "_").lstrip("_")
    weight = 1.0 if word in _SENSITIVE else 0.0
    return not only, varies, -round(lift, 3), -weight, list(Category).index(change.category), change.name


def _without_repetition(changes: list[Change]) -> list[Change]:
    """Leave out what repeats another change: options, arguments, learning rates, packages."""
    first = [each for each in changes if each.source in ("config", "versions")]
    known = {(_word(each.name), each.before, each.after) for each in first}
    values = {(each.before, each.after) for each in changes if each.source in ("config", "data")}

    def repeats(change: Change) -> bool:
        name, before, after = _word(change.name), change.before, change.after
        if change.source in _RATES_OF and name in _RATES:
            return (_bare(before), _bare(after)) in {(_bare(old), _bare(new)) for old, new in values}
        is_argument = change.source == "command" and name.startswith("argument ")
        return (before, after) in values if is_argument else (name, before, after) in known

    return [each for each in changes if each.source in ("config", "data", "versions") or not repeats(each)]


def _bare(text: str | None) -> str | None:
    """Return the value in a list of one."""
    return text and text.removeprefix("[").removesuffix("]")


def _word(name: str) -> str:
    return name.rpartition(".")[2].lstrip("-").replace("-", "_").lower()


def _by_name(described: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return descriptions of optimizers, scalers or schedulers by name, without what training changes."""
    all_of_them = (
        [each for each in described if isinstance(each, Mapping)] if isinstance(described, list) else []
    )
    # An optimizer has no name before its first step, and is described again with its name.
    named = [each for each in all_of_them if any(each.get(part) for part in names)]
    left_out = {*names, *_MOVING}
    return {
        ".".join(str(each.get(part) or at) for part in names): {
            key: _still(value) for key, value in each.items() if key not in left_out
        }
        for at, each in enumerate(named or all_of_them)
    }


def _still(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: one for name, one in value.items() if name not in _MOVING}


def _options(arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a command line by option; the others by position."""
    found: dict[str, Any] = {}
    words, at, position = [str(each) for each in arguments], 0, 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else None
        name, equals, value = word.partition("=")
        if equals and name:
            found[name] = _parsed(value)
        elif not word.startswith("-") or _number(word) is not None:
            position += 1
            found[f"argument {position}"] = _parsed(word)
        elif following is not None and (not following.startswith("-") or _number(following) is not None):
            found[word] = _parsed(following)
            at += 1
        else:
            found[word] = True
        at += 1
    return found


def _parsed(text: str) -> Any:
    """Return an argument as the value that a configuration would hold, so that both are compared."""
    number = _number(text)
    if number is None:
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)
    return int(text) if text.lstrip("+-").isdecimal() else number


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) <= LONGEST else None
    except ValueError:
        return None


def _code(git: Mapping[str, Any]) -> dict[str, str]:
    """Return the commit, the branch and the uncommitted changes."""
    found = {name: str(git[name]) for name in ("commit", "branch") if git.get(name)}
    if "commit" in found:
        found["commit"] = found["commit"][:COMMIT]
    if git.get("dirty") is not None:
        changed = f"{YES} ({git['digest']})" if git.get("digest") else YES
        found[UNCOMMITTED] = changed if git["dirty"] else "no"
    return found


def _gpus(reported: Mapping[str, Any]) -> dict[str, str]:
    """Return the GPUs as "8 x NVIDIA H100", and the driver."""
    found = {}
    gpus = reported.get("gpus")
    known = [each for each in gpus if isinstance(each, Mapping)] if isinstance(gpus, list) else []
    if known:
        found["GPUs"] = ", ".join(f"{each.get('count', 1)} x {each.get('name')}" for each in known)
    sizes = [each["memory_gib"] for each in known if isinstance(each.get("memory_gib"), (int, float))]
    if sizes:
        found["GPU memory"] = f"{min(sizes):g} GiB"
    if reported.get("driver"):
        found["driver"] = str(reported["driver"])
    return found
