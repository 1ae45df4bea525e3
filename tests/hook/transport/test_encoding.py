"""What scripts pass always fits into a message."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from tocsin import protocol
from tocsin.transport.encoding import CONFIG_BYTES, packed, sendable


class Color(enum.Enum):
    """An enum as a config may contain it."""

    RED = "red"


class Sullen:
    """An object whose ``repr`` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (Path("a/b"), "a/b"),
        (Color.RED, "red"),
        (torch.zeros(2, 3), "Tensor of shape (2, 3)"),
        (torch.float16, "torch.float16"),
        (("a", {1: None}), ["a", {1: None}]),
        (float("-inf"), float("-inf")),
    ],
)
def test_values_of_a_config_are_sent_as_the_nearest_plain_thing(value: Any, sent: Any) -> None:
    """Numbers as numbers, paths and types as text, tensors by shape only."""
    assert msgspec.msgpack.decode(packed({"value": value}, 1000), strict=False)["value"] == sent


@pytest.mark.parametrize("value", [Sullen(), 2**80])
def test_what_cannot_be_encoded_says_so(value: Any) -> None:
    """A notice replaces the data; nothing is raised."""
    assert "could not be encoded" in msgspec.msgpack.decode(packed(value, 1000))["left_out"]


def test_a_hello_can_always_be_sent() -> None:
    """A config with objects in it, or larger than the server takes, does not break the connection."""
    writer = protocol.WriterId("a", 0, "b", 1, 1)
    hello = protocol.Hello(1, "t", "p", "n", "r", writer, 1, "h", 0, config={"act": torch.relu})
    hello.optimizers = [{"params": torch.zeros(3), "lr": np.float64(0.1)}]
    assert protocol.decode_client(protocol.encode(sendable(hello))) == sendable(hello)
    assert sendable(hello).optimizers == [{"params": "Tensor of shape (3,)", "lr": 0.1}]
    hello.config = "x" * CONFIG_BYTES
    assert "expected at most" in sendable(hello).config["left_out"]
