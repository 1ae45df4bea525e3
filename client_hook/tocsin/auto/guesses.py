"""Guess the configuration and the planned steps that a script would have passed to ``watch``."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from ..core.script import is_installed

NAMES = (
    *(
        "args",
        "cfg",
        "config",
        "conf",
        "hparams",
        "hps",
        "opt",
        "opts",
        "options",
        "flags",
        "FLAGS",
        "settings",
    ),
    *(
        "hyperparameters",
        "hyper_params",
        "training_args",
        "train_args",
        "train_config",
        "exp_config",
        "params",
    ),
)
"""Names that scripts give their configuration."""
TYPES = ("Namespace", "DictConfig", "CfgNode", "ConfigDict", "AttributeDict")
"""Classes of argparse, OmegaConf and Hydra, yacs, ml_collections and Lightning that hold a configuration."""
STEPS = (
    "max_steps",
    "max_train_steps",
    "max_training_steps",
    "num_train_steps",
    "num_training_steps",
    "total_train_steps",
    "total_training_steps",
    "train_steps",
    "max_iters",
    "max_iterations",
    "num_iterations",
    "train_iters",
)
"""Names of settings that count the optimizer steps of a training, as in nanoGPT, Accelerate and Megatron."""
OTHER_STEPS = ("total_timesteps", "total_frames", "num_env_steps")
"""Settings that count steps of an environment. Beside them, one of STEPS may count rollouts."""
SECTIONS = 3
"""Maximum depth of the sections of a configuration that are searched."""
LIGHTNING_STEPS = "estimated_stepping_batches"
"""Property of Lightning's Trainer: the optimizer steps of its fit."""
HOLDERS = ("args", "hparams")
"""Attributes in which trainers hold the configuration, such as that of transformers and of Lightning."""


def config_of(frame: FrameType | None) -> dict[str, Any] | None:
    """Return the configuration in the variables of the calling functions, or None.

    Variables of the script and its modules count, and objects of installed libraries that are named as a
    configuration in them. Several configurations are returned under their names.

    Args:
        frame: The innermost frame to search.
    """
    found: dict[str, Any] = {}
    known: list[Any] = []
    for name, value in _variables(frame):
        if not any(value is one for one in known):
            known.append(value)
            found.setdefault(name, value)
    if len(found) == 1:
        (only,) = found.values()
        return only  # type: ignore[no-any-return]
    return found or None


def planned_steps_of(config: Any, frame: FrameType | None = None) -> int | None:
    """Return the number of optimizer steps that a script plans, or None if nothing or more than one says it.

    Args:
        config: What :func:`config_of` returned.
        frame: The innermost frame to search for a Trainer of transformers or Lightning, which knows them.
    """
    if counted := set(_trainer_steps(frame)):
        return counted.pop() if len(counted) == 1 else None
    found: set[int] = set()
    for section in _sections(config):
        if any(name in section for name in OTHER_STEPS):
            return None
        found |= {value for name in STEPS if type(value := _value(section, name)) is int and value > 0}
    return found.pop() if len(found) == 1 else None


def _sections(config: Any, depth: int = SECTIONS) -> Iterator[Mapping[str, Any]]:
    """Yield a configuration as a mapping, and those within it."""
    named = config if isinstance(config, Mapping) else getattr(config, "__dict__", {})
    yield named
    for name in tuple(named) if depth else ():
        value = _value(named, name)
        if isinstance(value, Mapping) or dataclasses.is_dataclass(value) or _is_config_type(value):
            yield from _sections(value, depth - 1)


def _value(section: Mapping[str, Any], name: str) -> Any:
    """Return a value, or None for one that OmegaConf requires or cannot resolve."""
    try:
        return section[name]
    except Exception:
        return None


def _trainer_steps(frame: FrameType | None) -> Iterator[int]:
    """Yield the planned steps of the trainers whose methods are running."""
    while frame is not None:
        owner = dict(_locals(frame)).get("self")
        state = getattr(owner, "__dict__", {}).get("state")
        planned = getattr(state, "max_steps", None) if type(state).__name__ == "TrainerState" else None
        if hasattr(type(owner), LIGHTNING_STEPS):
            with contextlib.suppress(Exception):
                planned = getattr(owner, LIGHTNING_STEPS)
        if type(planned) is int and planned > 0:
            yield planned
        frame = frame.f_back


def _variables(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """Yield configurations, those of the outermost function first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    for one in reversed(frames):
        is_library = is_installed(one.f_code.co_filename)
        for name, value in _locals(one):
            if name == "self":
                yield from _held(value)
            elif not is_library and _is_config(name, value):
                yield name, value


def _locals(frame: FrameType) -> tuple[tuple[str, Any], ...]:
    """Return names and values of a function's variables.

    Until Python 3.12, reading them stores a copy in the frame. It would keep the tensors of this step alive
    for as long as the function runs, so it is emptied.
    """
    variables = frame.f_locals
    found = tuple(variables.items())
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        variables.clear()
    return found


def _held(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the configuration that a trainer or module holds."""
    for name in HOLDERS:
        value = getattr(owner, "__dict__", {}).get(name)
        value = getattr(owner, name, None) if name == "hparams" and hasattr(owner, "_hparams") else value
        if value is not None and (_is_config_type(value) or dataclasses.is_dataclass(value)):
            yield name, value


def _is_config(name: str, value: Any) -> bool:
    if isinstance(value, type):
        return False
    if _is_config_type(value):
        return True
    if dataclasses.is_dataclass(value):
        return name in NAMES or type(value).__name__.endswith(("Args", "Arguments", "Config", "Settings"))
    return name in NAMES and isinstance(value, Mapping) and _is_plain(value)


def _is_config_type(value: Any) -> bool:
    return any(cls.__name__ in TYPES for cls in type(value).__mro__)


def _is_plain(value: Mapping[Any, Any]) -> bool:
    """Return whether a mapping has names as keys and no tensors, modules or functions as values."""
    return bool(value) and all(
        isinstance(key, str) and not callable(one) and not hasattr(one, "requires_grad")
        for key, one in value.items()
    )
