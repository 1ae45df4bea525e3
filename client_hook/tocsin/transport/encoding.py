"""Encode values of a training script as msgpack of bounded size. Pure; never raises."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from ..protocol import Hello

CONFIG_BYTES = 1 << 20
"""``limits.config_bytes`` of the server."""
TEXT = 200
_FREE = ("config", "optimizers", "scalers", "schedulers")


def packed(value: Any, limit: int) -> bytes:
    """Return ``value`` as msgpack. Unknown types become text; data above ``limit`` bytes is replaced by a
    notice.
    """
    try:
        body = _encoder.encode(value)
    except Exception as error:
        return _encoder.encode({"left_out": f"could not be encoded: {error!r}"[:TEXT]})
    if len(body) > limit:
        return _encoder.encode({"left_out": f"expected at most {limit} bytes, got {len(body)}"})
    return body


def sendable(hello: Hello) -> Hello:
    """Return a handshake whose free-form parts can be encoded."""
    config = msgspec.msgpack.decode(packed(hello.config, CONFIG_BYTES))
    lists = {name: msgspec.msgpack.decode(packed(getattr(hello, name), CONFIG_BYTES)) for name in _FREE[1:]}
    kept = {name: value if isinstance(value, list) else [value] for name, value in lists.items()}
    return msgspec.structs.replace(hello, config=config, **kept)


def _known(value: Any) -> Any:
    """Return the nearest type that msgpack knows. A tensor becomes its shape: it may be on a device."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, PurePath):
        return str(value)
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    return repr(value)[:TEXT]


_encoder = msgspec.msgpack.Encoder(enc_hook=_known)
