"""``key=value`` and ``key: value`` lines of scripts, such as ``Batch 50: grad_norm=2.451, loss=11.8234``.

Also dicts that HF's Trainer prints, progress bars, nanoGPT's ``iter 0: loss 10.9``, Keras.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ..evaluations import announces_evaluation, is_part
from ..format import Head, line_format
from ..items import Parsed, Row
from ..names import alias, normal
from ..values import NUMBER, is_null, text_number

_KEY = r"[A-Za-z_][\w./@+\-]{0,200}(?: [A-Za-z][\w./@+\-]{0,200}){0,3}"
_PAIR = re.compile(
    rf"(?<![A-Za-z_]:)(?<!\w)({_KEY})(?:\(\w+\))?['\"]?\s*(?:=|:|->)\s*"
    rf"(?:(?:\[|\(|tensor\(|['\"])\s*)?({NUMBER}|none\b|null\b)"
    r"(?!:?[\w/]|:\d|\.\d)",
    re.IGNORECASE,
)
_SPACED = re.compile(
    rf"\b((?:(?:train|training|val|validation|test|avg|average)[ _])?(?:loss|acc|accuracy)|grad[_ ]norm|"
    rf"gnorm|(?<!\w )norm|loss[_ ]scale|(?<!\w )scale|lr|learning[_ ]rate|psnr|ssim)"
    rf"\s+({NUMBER})(?![\w/:]|\.\d)",
    re.IGNORECASE,
)
_COUNT = (
    r"['\"]?\s*(?:[#:=\[(]+\s*)?(\d[\d,]*)(?![\d,]|\.\d|\s*%)(?:\s*(?:[\])]\s*)?(?:/|of)\s*\[?(\d[\d,]*))?"
    r"(?!\s*(?:s|ms|it/s)\b)"
)
_STEP = re.compile(
    rf"\b(global[_ ]?step|num_updates|steps?|iters?|iterations?|updates?|it){_COUNT}", re.IGNORECASE
)
_BATCH = re.compile(rf"\b(batch(?:_idx)?|minibatch){_COUNT}", re.IGNORECASE)
_EPOCH = re.compile(
    r"\bepochs?['\"]?\s*(?:[#:=\[(]+\s*)?(\d+(?:\.\d+)?)(?:\s*(?:[\])]\s*)?(?:/|of)\s*\[?(\d+))?",
    re.IGNORECASE,
)
_AT = re.compile(r"@\s*([\d,]+)\s*(?:steps?|iter)", re.IGNORECASE)
_BAR = re.compile(r"(?<!\d)(\d+)/(\d+) (?:\[(?:\d+:\d\d|[=>.\-]+\])|━|- \d+m?s\b)")
"""tqdm, Keras 2, Keras 3, and Keras without a bar."""
_BATCHES = re.compile(r"(?<!\d)(\d+)/\s*(\d+) batches\b")
"""``| epoch   1 |   200/ 2983 batches`` of PyTorch's language model example."""
_SAMPLES = re.compile(r"\bepoch:?\s*(\d+)\s*\[\s*(\d+)/(\d+)\s*\(\s*\d+(?:\.\d+)?%\)\]", re.IGNORECASE)
"""``Train Epoch: 1 [640/60000 (1%)]``, which counts samples, of PyTorch's examples."""
_BRACKETED = re.compile(r"\]\s*\[(\d+)\]\s+(?=[A-Za-z_][\w/]*=)")
"""``logging_writer.py:48] [100] loss=2.1``: CLU of Flax."""
_FILES = (".py", ".cc", ".cpp", ".cu")
_LINE_LIMIT = 4000
_POSITIONS = {
    "step", "steps", "iter", "iters", "iteration", "iterations", "epoch", "epochs", "batch", "global_step",
    "num_updates", "update", "updates", "it", "batch_idx",
}  # fmt: skip
_WEAK = {"norm", "scale", "scaler", "skip", "overflow"}
"""Names that are known signals only without another word, unlike ``Logit Scale`` and ``params norm``."""
_DUE = {"loss", "grad_norm", "train_loss", "train/loss", "train/grad_norm"}
"""Names whose null makes a line a row, even without other values."""
_NOISE = {"cuda", "gpu", "mem", "memory", "max_mem", "eta", "rank", "device", "port", "pid", "seed", "info"}


class KeyValueParser:
    """Parse lines that contain a known signal. A single setting without a step is not a row."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._bar: tuple[float, float] | None = None
        self._trained = False
        """A training loss was read. If every line mentions a test, "test" is part of the run's name."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        if len(line) > _LINE_LIMIT or not (":" in line or "=" in line or " " in line):
            return
        row = Row(number, {})
        first = _values(row, line)
        is_evaluation = announces_evaluation(line[:first])
        row.evaluation = is_evaluation and self._trained
        if row.evaluation and is_part(line[:first]):
            return
        self._place(row, line)
        if "train_runtime" in row.values or not _is_row(row, line):
            return
        self._trained = self._trained or (not is_evaluation and _has_loss(row))
        yield row

    def _place(self, row: Row, line: str) -> None:
        epoch, step, batch = _EPOCH.search(line), _STEP.search(line), _BATCH.search(line)
        bar = _BAR.search(line) if "/" in line else None
        at = _AT.search(line) if "@" in line else None
        samples = _samples(line) if "%)]" in line else None
        if samples is None and "batches" in line and epoch is not None:
            samples = _batches(epoch, line)
        if samples is not None:
            row.epoch, row.iteration, row.per_epoch = (float(group) for group in samples)
            return
        if epoch is not None:
            row.epoch = float(epoch[1])
            self._epoch = self._epoch if line.lstrip().startswith("{") else row.epoch
            row.epochs = float(epoch[2]) if epoch[2] else None
        if at is not None:
            row.step = _count(at[1])
        elif step is not None and (epoch is None or _is_global(step[1])):
            row.step = _count(step[2])
        elif step is not None or batch is not None:
            self._within(row, _count((step or batch)[2]))  # type: ignore[index]
        elif bar is not None and not row.evaluation:
            self._progress(row, float(bar[1]), float(bar[2]), line[: bar.start()])
        elif "] [" in line and (bracketed := _BRACKETED.search(line)) is not None:
            row.step = float(bracketed[1])
        elif self._bar is not None and line.lstrip().startswith("{"):
            row.step = self._bar[0]

    def _within(self, row: Row, iteration: float) -> None:
        """Handle a count that may restart at each epoch; the steps show whether it does."""
        row.epoch, row.iteration = self._epoch, iteration

    def _progress(self, row: Row, done: float, total: float, before: str) -> None:
        """Handle a progress bar: of an epoch if the line says so, else of the whole run."""
        if self._epoch is not None or re.search(r"\bepoch\b", before, re.IGNORECASE):
            self._within(row, done)
        elif self._bar is None or total >= self._bar[1]:
            self._bar = done, total
            row.step = done


def _samples(line: str) -> tuple[str, ...] | None:
    """Return epoch, samples, and samples per epoch."""
    found = _SAMPLES.search(line)
    return None if found is None else found.groups()


def _batches(epoch: re.Match[str], line: str) -> tuple[str, ...] | None:
    """Return epoch, batches, and batches per epoch."""
    found = _BATCHES.search(line)
    return None if found is None else (epoch[1], *found.groups())


def _is_global(word: str) -> bool:
    return word.lower().startswith(("global", "num_"))


def _count(text: str) -> float:
    return float(text.replace(",", ""))


def _values(row: Row, line: str) -> int:
    """Set the row's values and nulls; return the position of the first known signal."""
    nulls: list[str] = []
    first = len(line)
    for found in (*_PAIR.finditer(line), *_SPACED.finditer(line)):
        name, text = _name(found[1]), found[2]
        if name is None or name in row.values:
            continue
        if is_null(text):
            nulls.append(name)
        elif (value := text_number(text)) is not None:
            row.values[name] = value
        else:
            continue
        if found.start() < first and alias(name) is not None:
            first = found.start()
    row.null = tuple(nulls)
    return first


@lru_cache(maxsize=4096)
def _name(key: str) -> str | None:
    """Return the longest ending of ``key`` (up to four words) that is a known name."""
    if key.endswith(_FILES):
        return None
    words = key.split(" ")
    for start in range(len(words)):
        part = " ".join(words[start:])
        if normal(part) in _POSITIONS or part.lower() in _NOISE:
            return None
        if start and normal(part) in _WEAK:
            continue
        known = alias(part)
        if known is not None and (len(words) - start == 1 or not known[0].startswith("loss/")):
            return part
    return words[0] if len(words) == 1 else None


def _is_row(row: Row, line: str) -> bool:
    """Return whether the row has values of a step or an evaluation, not a setting."""
    names = [*row.values, *(name for name in row.null if normal(name) in _DUE)]
    ours = {found[0] for name in names if (found := alias(name)) is not None}
    placed = row.step is not None or row.iteration is not None or row.epoch is not None
    if placed:
        return bool(ours)
    alone = len(row.values) == 1 and line[:1] in (" ", "\t", "-")
    return not alone and any(name in ("loss", "grad_norm") or name.startswith("val/") for name in ours)


def _has_loss(row: Row) -> bool:
    return any((found := alias(name)) is not None and found[0] == "loss" for name in row.values)


_LINES = line_format("key=value lines", 90, KeyValueParser)


def _sniff(head: Head) -> int:
    """Count the lines with a step; those of a JSON document, such as results, are none."""
    return 0 if head.name.endswith((".json", ".jsonl")) else _LINES.sniff(head)


FORMAT = replace(_LINES, sniff=_sniff)
