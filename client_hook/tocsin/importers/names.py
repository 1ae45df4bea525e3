"""Map names of other tools to tocsin's: loss, grad_norm, scale, lr, skipped, val/<metric>, loss/<component>.

If a file has several candidates for one name (``loss`` and ``train_loss``), the best one so far gets it, and
the others keep their own names. docs/reference/log-formats.md contains the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ..core.run_fields import NAME_BYTES

SERIES_LIMIT = 400
"""Maximum number of different names per file. Later ones are skipped and counted."""
VALIDATION = "val/"
"""Names that begin with it are already those of tocsin, as a mirror records them."""

Alias = tuple[str, int]
"""tocsin's name, and the rank of this candidate for it: 0 is the best."""


def _ranked(ours: str, *theirs: str) -> dict[str, Alias]:
    return {name: (ours, rank) for rank, name in enumerate(theirs)}


_EXACT: dict[str, Alias] = {
    **_ranked(
        "loss", "loss", "train/loss", "train_loss", "training_loss", "trainer/loss", "train/total_loss",
        "loss/train", "train_loss_step", "total_loss", "loss_total", "loss/total", "losses/total", "lm_loss",
        "train_inner/loss", "train/lm_loss", "loss_avg", "avg_loss", "mean_loss", "loss_step", "batch_loss",
        "loss_value", "loss_val_now", "train_loss_epoch", "train_loss_avg", "running_loss", "l_total",
        "step_loss", "avr_loss", "current_loss", "cur_loss", "loss/train/total", "train/crossentropyloss",
        "train/ce_loss", "crossentropyloss", "celoss", "g_loss", "loss_g", "loss/g", "loss_gen", "gen_loss",
        "reduced_train_loss", "train_step_loss",
        "generator_loss", "g/loss", "errg", "l_g_total",
    ),
    **_ranked(
        "grad_norm", "grad_norm", "train/grad_norm", "gnorm", "total_norm", "gradient_norm", "gradnorm",
        "grad/norm", "grad_norm_val", "grad_norm_value", "global_grad_norm", "grad_norm_total",
        "grad_2.0_norm_total", "grad_norm/total", "grads/norm", "total_grad_norm", "train_inner/gnorm",
        "grad_norm_avg", "optim/total_grad_norm", "optim/grad_norm", "l2_norm/grad/global",
        "train/gradient_norm", "grad_norm_g", "g_grad_norm", "norm",
    ),
    **_ranked(
        "scale", "loss_scale", "scale", "amp_scale", "scaler_scale", "grad_scale", "lossscale", "amp/scale",
        "scaler/scale", "train/loss_scale", "train/scale", "amp_loss_scale", "grad_scaler", "scaler",
        "train_inner/loss_scale", "scale_g", "loss_scale_value", "cur_scale",
    ),
    **_ranked(
        "lr", "lr", "learning_rate", "train/lr", "train/learning_rate", "learningrate", "optim/lr", "lr/0",
        "train_inner/lr", "optim/learning_rate_group0", "lr/group0", "lr_0", "lr_g", "base_lr",
        "current_lr", "optimizer/lr", "x/lr0",
    ),
    **_ranked(
        "skipped", "skipped", "skip", "number_of_skipped_iterations", "overflow", "skipped_iters",
        "is_skipped",
    ),
    **_ranked("found_inf", "found_inf", "found_infs"),
    **_ranked("stepped", "stepped"),
    **_ranked("loss_n", "loss_n"),
    **_ranked(
        "step_time", "step_time", "iter_time", "time_per_step", "batch_time", "sec_per_step", "time_per_iter",
        "seconds_per_step", "perf/step_time", "batch_time_val", "batch_time_avg",
    ),
}  # fmt: skip

_ADVERSARY = re.compile(r"^(?:(d|c|disc|discriminator|critic)[_/]?(?:(total)_?)?loss|"
                        r"(?:loss|err|l)[_/]?(d|c|disc|discriminator|critic)(?:_total)?)$")  # fmt: skip
_OF_ADVERSARY = re.compile(r"^(grad_norm|gnorm|lr|learning_rate|scale|loss_scale)[_/]"
                           r"(d|c|disc|discriminator|critic)$|"
                           r"^(d|c|disc|discriminator|critic)[_/](grad_norm|lr)$")  # fmt: skip
_GROUP = re.compile(
    r"^(?:lr|learning_rate)(?:[-/_][a-z]+)?[-/_]?(?:group|pg|param_group|g)?[_/]?(\d{1,6})$", re.IGNORECASE
)
_LR_OF = re.compile(r"^lr-\w+(?:/(?:pg(\d{1,6})|group(\d{1,6})))?$", re.IGNORECASE)
_EVALUATION = re.compile(r"^(validation|valid|val|eval|evaluation|dev|test|testing)[/_ -](.+)$")
_EVALUATED = re.compile(r"^(.+)[/_](validation|valid|val|eval|test)$")
_PHASE = re.compile(r"^(?:train|training|trainer)[/_](.+)$")
_DETECTOR = re.compile(
    r"^(metrics)/((?:precision|recall|map)[\w.]*)$|^(bbox|segm|keypoints|sem_seg|panoptic_seg)/\w.*$"
)
_PHASE_RANK = ("validation", "valid", "val", "eval", "evaluation", "dev", "test", "testing")

_HIGHER = {
    "acc", "accuracy", "top1", "top5", "acc1", "acc5", "psnr", "ssim", "bleu", "chrf", "f1", "auc", "auroc",
    "map", "miou", "iou", "dice", "recall", "precision", "r2", "mrr", "ndcg", "rouge", "meteor", "ap",
    "ap50", "ap75", "map50", "mssim",
}  # fmt: skip
_LOWER = {
    "loss", "ppl", "perplexity", "wer", "cer", "fid", "lpips", "mae", "mse", "rmse", "error", "err", "nll",
    "bpb", "bpc", "niqe", "epe", "kid", "mape", "bce", "ce",
}  # fmt: skip
_QUALITY = {"psnr", "ssim", "fid", "lpips", "bleu", "miou", "wer", "cer", "niqe", "chrf"}
"""Names that are always metrics of an evaluation."""
_DECIBELS = {"psnr", "snr", "sdr", "si_sdr"}


_NO_METRIC = re.compile(
    r"^(num_examples|runtime|samples_per_second|steps_per_second|n|num_updates|step|epoch|iter|wps|ups|wall|"
    r"model_preparation_time|time|duration)$"
)
_DERIVED = {
    "best",
    "min",
    "max",
    "ema",
    "smooth",
    "smoothed",
    "running",
    "last",
    "prev",
    "previous",
    "std",
    "count",
}


@lru_cache(maxsize=4096)
def normal(name: str) -> str:
    """Return ``name`` normalized: lower case, words joined by ``_``, no brackets or quotes."""
    name = name.strip().strip("'\"#*").strip().lower()
    name = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", name)
    if " " not in name and "-" not in name:
        return name
    return re.sub(r"(?<![\s\-+@:.])[\s\-+@:.]+(?=\w)", "_", name.strip()).strip("_ .:")


@lru_cache(maxsize=4096)
def alias(name: str, *, evaluation: bool = False) -> Alias | None:
    """Return tocsin's name for ``name`` and its rank, or None if it is not a known signal."""
    if name.startswith("lr-"):
        return _group(_LR_OF.match(name))
    if name.startswith(VALIDATION):
        return _own(name), 0
    plain = normal(name)
    if evaluation:
        return _metric(plain, 0)
    known = _EXACT.get(plain)
    if known is not None:
        return known
    return (
        _adversary(plain)
        or _of_training(plain)
        or _evaluation(plain)
        or _detected(plain)
        or _grouped(plain)
        or _component(plain)
    )


def _of_training(plain: str) -> Alias | None:
    """Match names with the phase as prefix, such as ``train_lr`` or ``train/grad/norm``."""
    found = _PHASE.match(plain)
    known = _EXACT.get(found[1]) if found is not None and found[1] != "norm" else None
    return None if known is None else (known[0], known[1] + len(_EXACT))


def _detected(plain: str) -> Alias | None:
    """Match metrics of evaluations, such as ``metrics/mAP50(B)`` of YOLO or ``bbox/AP`` of Detectron2."""
    found = _DETECTOR.match(plain)
    if found is None:
        return None
    return _metric(found[2] if found[1] == "metrics" else plain, 20)


def _group(found: re.Match[str] | None) -> Alias | None:
    if found is None:
        return None
    number = int(found[2]) if found[2] else int(found[1] or 1) - 1
    return (f"lr/g{number}" if number else "lr", 20)


def _grouped(plain: str) -> Alias | None:
    found = _GROUP.match(plain)
    if found is None:
        return None
    return (f"lr/g{int(found[1])}" if int(found[1]) else "lr", 15)


def _adversary(plain: str) -> Alias | None:
    if _ADVERSARY.match(plain):
        return "loss/D", 0
    of = _OF_ADVERSARY.match(plain)
    if of is None:
        return None
    base = _EXACT[of[1] or of[4]][0]
    return f"{base}/D", 0


def _evaluation(plain: str) -> Alias | None:
    found = _EVALUATION.match(plain)
    if found is not None:
        return None if _NO_METRIC.match(found[2]) else _metric(found[2], _PHASE_RANK.index(found[1]))
    behind = _EVALUATED.match(plain)
    if behind is not None and (_words(behind[1]) & (_HIGHER | _LOWER)):
        return _metric(behind[1], 10 + _PHASE_RANK.index(behind[2]))
    return _metric(plain, 30) if plain in _QUALITY else None


def _metric(name: str, rank: int) -> Alias:
    found = _EVALUATION.match(name)
    return f"val/{found[2] if found else name}", rank


def _component(plain: str) -> Alias | None:
    if plain.startswith("train_inner/") or "scale" in plain or "weight" in plain:
        return None
    plain = plain.removeprefix("train/")
    words = _words(plain)
    if words & _DERIVED or ("loss" not in words and not re.match(r"^l_[a-z]", plain)):
        return None
    short = re.sub(r"_(?:avg|mean)$", "", plain)
    bare = re.sub(r"^(?:losses|loss|l)[/_]|_loss(?=_|$)|/loss$", "", short)
    if not bare or bare.isdigit() or bare == "loss":
        return None
    return f"loss/{bare.replace('/', '_')}", int(short != plain)


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name.lower()))


def goal_of(name: str) -> tuple[str, str]:
    """Return the goal (``max``, ``min``, or empty if unknown) and the unit of a metric."""
    words = _words(name.removeprefix("val/").replace("@", ""))
    unit = "dB" if words & _DECIBELS else ""
    if words & _LOWER:
        return "min", unit
    return ("max", unit) if words & _HIGHER else ("", unit)


@dataclass(slots=True)
class _Choice:
    theirs: str
    rank: int


class Naming:
    """The mapping of names for one file, built while it is read."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], Alias | None] = {}
        self._chosen: dict[str, _Choice] = {}
        self.left_out: set[str] = set()
        """Names beyond ``SERIES_LIMIT``, up to the same number."""

    def pair_up(self, header: list[str]) -> None:
        """Learn from a table's header that ``x_val`` next to ``x_avg`` is the current value, not an
        evaluation.
        """
        plain = {name: normal(name) for name in header}
        for name in header:
            base = plain[name].removesuffix("_val")
            if base != plain[name] and f"{base}_avg" in plain.values():
                found = _EXACT.get(plain[name])
                self._known[name, False] = found

    def of(self, name: str, *, evaluation: bool = False) -> str | None:
        """Return tocsin's name, or the file's own if there is none, or None if there are too many names."""
        key = (name, evaluation)
        if key not in self._known:
            if len(self._known) >= SERIES_LIMIT:
                if len(self.left_out) < SERIES_LIMIT:
                    self.left_out.add(name)
                return None
            self._known[key] = alias(name, evaluation=evaluation)
        found = self._known[key]
        return _own(name) if found is None else self._choose(name, *found)

    def _choose(self, name: str, ours: str, rank: int) -> str:
        choice = self._chosen.get(ours)
        if choice is None or rank < choice.rank:
            self._chosen[ours] = _Choice(name, rank)
            return ours
        return ours if choice.theirs == name or choice.rank == rank else _own(name)


_OURS = re.compile(r"^(loss|loss_n|grad_norm|scale|lr|skipped|stepped|found_inf|step_time)(/|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
"""Characters that the server accepts in no name."""


def _own(name: str) -> str:
    """Return the file's own name, as a mirror records it; with a prefix if it looks like one of tocsin's."""
    name = _CONTROL.sub(" ", name).strip()
    name = f"logged/{name}" if _OURS.match(name) else name
    return name.encode("utf-8", "replace")[:NAME_BYTES].decode("utf-8", "ignore")
