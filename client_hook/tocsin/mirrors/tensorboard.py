"""Mirror TensorBoard: the SummaryWriter of PyTorch and of tensorboardX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .feed import Row, follow
from .write_back import Note, Targets

TAG = "tocsin/alerts"
"""Tag of the text that alerts are written to."""


def install(module: Any) -> None:
    """Mirror the ``SummaryWriter`` of a module."""
    follow("tensorboard", module.SummaryWriter, "add_scalar", _scalar)
    follow("tensorboard", module.SummaryWriter, "add_scalars", _scalars)


def _scalar(
    writer: Any, tag: Any, scalar_value: Any, global_step: Any = None, *_: Any, **__: Any
) -> Iterable[Row]:
    _writers.add(writer)
    yield Row({str(tag): scalar_value}, global_step)


def _scalars(
    writer: Any,
    main_tag: Any,
    tag_scalar_dict: Mapping[Any, Any],
    global_step: Any = None,
    *_: Any,
    **__: Any,
) -> Iterable[Row]:
    _writers.add(writer)
    yield Row({f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}, global_step)


def _write(writer: Any, note: Note) -> None:
    """Write an alert as text. A closed writer would create another file, so it is left alone."""
    if getattr(writer, "file_writer", None) is not None:
        writer.add_text(TAG, f"**{note.title}**\n\n{note.line}\n\n{note.text}", note.step)


_writers = Targets("tensorboard", _write)
