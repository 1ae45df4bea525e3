"""Notice the checkpoints that a script saves, through torch, safetensors or a framework.

A file counts as a checkpoint if what is saved holds the state of a model or an optimizer (``kept_state``). A
framework saves several files in one directory: then the directory is one checkpoint, and what is saved
inside the framework's function is not reported.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

import torch

from ..lifecycle.import_hook import when_imported
from ..system.checkpoints import path_of
from . import patching

DEEP = 3
"""Nested mappings that are searched for state."""
LOOKED_AT = 64
"""Values of a mapping that are looked at."""
_STATE_NAMES = ("weight", "bias")


class _Scope(threading.local):
    depth = 0
    """Functions that save a checkpoint on this thread, one inside the other."""


_scope = _Scope()
_waited_for: set[str] = set()
"""Checkpoints that a thread of torch writes in the background."""


class _Save(NamedTuple):
    """A checkpoint that is being saved."""

    path: str
    by: str
    holds: frozenset[str]
    is_folder: bool


Describe = Callable[[tuple[Any, ...], dict[str, Any]], "_Save | None"]
"""Returns what a call saves from its arguments, or None if that is no checkpoint."""

MODEL, OPTIMIZER = frozenset({"model"}), frozenset({"optimizer"})
BOTH = MODEL | OPTIMIZER


def install() -> None:
    """Watch ``torch.save`` now, and the other functions when their modules are imported."""
    patching.replace_within(torch.serialization.save, _watch(_torch_save))
    for module, owner, name, describe in _FUNCTIONS:
        add = functools.partial(_install, module, owner, name, describe)
        if module in sys.modules:
            add()
        else:
            patching.undo_later(when_imported(module, functools.partial(patching.install_late, add)))


def _install(module: str, owner: str, name: str, describe: Describe) -> None:
    """Patch one function of a library; a version without it is left alone."""
    within: Any = sys.modules[module]
    if owner:
        within = getattr(within, owner, None)
    if within is None or getattr(within, name, None) is None:
        return
    if owner:
        patching.replace(within, name, _watch(describe))
    else:
        make = _watch_async if name == "async_save" else _watch(describe)
        patching.replace_within(getattr(within, name), make)


def kept_state(saved: Any, deep: int = DEEP) -> frozenset[str]:
    """Return ``model`` and ``optimizer`` if ``saved`` holds the state of such.

    That is a module or an optimizer itself, what ``state_dict()`` returns, a mapping with a tensor named
    ``weight`` or ``bias`` (also ``layer.weight``) or a Parameter, or a mapping or list with one of these.
    """
    if isinstance(saved, torch.nn.Module):
        return MODEL
    if isinstance(saved, torch.optim.Optimizer):
        return OPTIMIZER
    if isinstance(saved, (list, tuple)):
        return _all_of(saved, deep) if deep else frozenset()
    if not isinstance(saved, dict):
        return frozenset()
    if "param_groups" in saved and "state" in saved:
        return OPTIMIZER
    if hasattr(saved, "_metadata"):
        return MODEL
    for name, value in islice(dict.items(saved), LOOKED_AT):
        if isinstance(value, torch.nn.Parameter):
            return MODEL
        is_named = isinstance(name, str) and name.rpartition(".")[2] in _STATE_NAMES
        if is_named and isinstance(value, torch.Tensor):
            return MODEL
    return _all_of(dict.values(saved), deep) if deep else frozenset()


def _all_of(values: Any, deep: int) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for value in islice(values, LOOKED_AT):
        if isinstance(value, (dict, list, tuple, torch.nn.Module, torch.optim.Optimizer)):
            found |= kept_state(value, deep - 1)
            if found == BOTH:
                break
    return found


def _watch(describe: Describe) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def save(*args: Any, **kwargs: Any) -> Any:
            if not patching.attached or _scope.depth:
                return original(*args, **kwargs)
            begun = None
            try:
                begun = describe(args, kwargs)
                if begun is not None and begun.path in _waited_for:
                    begun = None
                if begun is not None:
                    _began(begun)
            except Exception as error:
                begun = None
                patching.report_error("checkpoint", error)
            if begun is None:
                return original(*args, **kwargs)
            began = monotonic()
            is_complete = False
            _scope.depth += 1
            try:
                result = original(*args, **kwargs)
                is_complete = True
            finally:
                _scope.depth -= 1
                try:
                    _ended(begun, began, is_complete)
                except Exception as error:
                    patching.report_error("checkpoint", error)
            return result

        return save

    return make


def _watch_async(original: Callable[..., Any]) -> Callable[..., Any]:
    """Report what ``async_save`` writes when it is written, with the step at which it was called."""

    @functools.wraps(original)
    def async_save(*args: Any, **kwargs: Any) -> Any:
        begun, steps = None, []
        try:
            if patching.attached and not _scope.depth:
                begun = _distributed(args, kwargs)
                steps = [(ledger, ledger.checkpoints.step()) for ledger in _watching()]
        except Exception as error:
            begun = None
            patching.report_error("checkpoint", error)
        if begun is None:
            return original(*args, **kwargs)
        began, path = monotonic(), begun.path
        _waited_for.add(path)
        try:
            response = original(*args, **kwargs)
        except BaseException:
            _waited_for.discard(path)
            raise
        try:
            _began(begun)

            def written(future: Any) -> None:
                _waited_for.discard(path)
                try:
                    for ledger, step in steps:
                        if ledger in patching.attached:
                            _report(ledger, begun, began, future.exception() is None, step)
                except Exception as error:
                    patching.report_error("checkpoint", error)

            getattr(response, "upload_completion", response).add_done_callback(written)
        except Exception as error:
            _waited_for.discard(path)
            patching.report_error("checkpoint", error)
        return response

    return async_save


def _watching() -> list[Any]:
    return [ledger for ledger in patching.attached if ledger.checkpoints is not None]


def _began(begun: _Save) -> None:
    for ledger in _watching():
        ledger.checkpoints.began(begun.path, is_folder=begun.is_folder)


def _ended(begun: _Save, began: float, is_complete: bool) -> None:
    for ledger in _watching():
        _report(ledger, begun, began, is_complete, None)


def _report(ledger: Any, begun: _Save, began: float, is_complete: bool, step: int | None) -> None:
    ledger.checkpoints.saved(
        begun.path,
        by=begun.by,
        holds=begun.holds,
        is_folder=begun.is_folder,
        is_complete=is_complete,
        step=step,
        took_s=monotonic() - began,
    )


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _torch_save(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    return _file(_argument(args, kwargs, 0, "obj"), _argument(args, kwargs, 1, "f"), "torch.save")


def _safetensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    tensors, path = _argument(args, kwargs, 0, "tensors"), _argument(args, kwargs, 1, "filename")
    return _file(tensors, path, "safetensors")


def _lightning(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    path = _argument(args, kwargs, 1, "filepath")
    return _file(_argument(args, kwargs, 0, "checkpoint"), path, "lightning")


def _file(saved: Any, target: Any, by: str) -> _Save | None:
    path = path_of(target)
    holds = kept_state(saved) if path is not None else frozenset()
    return _Save(path, by, holds, is_folder=False) if path is not None and holds else None


def _distributed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    target = kwargs.get("checkpoint_id")
    if target is None:
        target = getattr(kwargs.get("storage_writer"), "path", None)
    path = path_of(target)
    holds = kept_state(_argument(args, kwargs, 0, "state_dict"))
    return _Save(path, "torch.distributed.checkpoint", holds, True) if path is not None else None


def _trainer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    trainer, trial = args[0], _argument(args, kwargs, 2, "trial")
    if trial is not None or getattr(trainer, "hp_search_backend", None) is not None:
        return None
    name = f"checkpoint-{trainer.state.global_step}"
    holds = MODEL if trainer.args.save_only_model else BOTH
    path = os.path.abspath(os.path.join(trainer.args.output_dir, name))
    return _Save(path, "transformers.Trainer", holds, is_folder=True)


def _accelerate_state(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    settings = args[0].project_configuration
    target = _argument(args, kwargs, 1, "output_dir")
    if settings.automatic_checkpoint_naming:
        target = os.path.join(args[0].project_dir, "checkpoints", f"checkpoint_{settings.iteration}")
    path = path_of(target)
    return _Save(path, "accelerate.save_state", BOTH, is_folder=True) if path is not None else None


def _accelerate_model(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    path = path_of(_argument(args, kwargs, 2, "save_directory"))
    return _Save(path, "accelerate.save_model", MODEL, is_folder=True) if path is not None else None


def _pretrained(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    path = path_of(_argument(args, kwargs, 1, "save_directory"))
    return _Save(path, "save_pretrained", MODEL, is_folder=True) if path is not None else None


def _deepspeed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Save | None:
    folder = _argument(args, kwargs, 1, "save_dir")
    tag = _argument(args, kwargs, 2, "tag")
    tag = f"global_step{args[0].global_steps}" if tag is None else str(tag)
    return _Save(os.path.abspath(os.path.join(folder, tag)), "deepspeed", BOTH, is_folder=True)


_FUNCTIONS: tuple[tuple[str, str, str, Describe], ...] = (
    ("safetensors.torch", "", "save_file", _safetensors),
    ("torch.distributed.checkpoint.state_dict_saver", "", "save", _distributed),
    ("torch.distributed.checkpoint.state_dict_saver", "", "async_save", _distributed),
    ("lightning.fabric.utilities.cloud_io", "", "_atomic_save", _lightning),
    ("lightning_fabric.utilities.cloud_io", "", "_atomic_save", _lightning),
    ("transformers.trainer", "Trainer", "_save_checkpoint", _trainer),
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained", _pretrained),
    ("accelerate.accelerator", "Accelerator", "save_state", _accelerate_state),
    ("accelerate.accelerator", "Accelerator", "save_model", _accelerate_model),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "save_checkpoint", _deepspeed),
)
"""Module, class or empty, function, and how to read its arguments."""
