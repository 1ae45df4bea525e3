"""Any configuration becomes plain, bounded data."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import math
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.hook.captured import watched
from tocsin.core.config import DEPTH, ITEMS, TEXT, plain, settings_of


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Inner:
    rate: float
    where: Path


class Mappinglike:
    """Has the interface of omegaconf's DictConfig."""

    def items(self) -> Iterator[tuple[str, Any]]:
        return iter([("lr", 0.1), ("steps", Listlike())])


class Listlike:
    """Has the interface of omegaconf's ListConfig."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> int:
        return [3, 4][place]


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (argparse.Namespace(lr=0.1, out=Path("runs/a")), {"lr": 0.1, "out": "runs/a"}),
        (SimpleNamespace(a=1), {"a": 1}),
        (Inner(0.5, Path("x")), {"rate": 0.5, "where": "x"}),
        (Mappinglike(), {"lr": 0.1, "steps": [3, 4]}),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        ([Color.RED, None, True, 1 << 70], ["RED", None, True, hex(1 << 70)]),
        (torch.tensor([1.0, 2.0]), [1.0, 2.0]),
        (torch.zeros(100), "Tensor(100,) torch.float32"),
        (torch.tensor(3), 3),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.arange(3), [0, 1, 2]),
        (torch.float16, "torch.float16"),
        (Broken(), "<Broken>"),
        ("x" * (TEXT + 5), "x" * TEXT + "..."),
        ("\ud800", "?"),
    ],
)
def test_each_kind_of_configuration_is_read(given: Any, expected: Any) -> None:
    """Namespaces, dataclasses, mappings, paths, enums, arrays and tensors become plain data."""
    assert plain(given) == expected


class Plain:
    """A configuration class as scripts write it without a library."""

    lr = 0.1
    layers = (2, 3)
    optimizer = torch.optim.AdamW
    _private = 1

    class Model:
        dim = 64

    def __init__(self) -> None:
        self.lr = 0.2
        self.inner = Part()

    def build(self) -> None:
        """A method, which is not a setting."""

    @property
    def derived(self) -> float:
        raise AssertionError("a property may compute")


class Part:
    """An object of the same module, within a configuration."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        self.depth = 3


class Child(Plain):
    layers = (4, 4)


@dataclasses.dataclass
class Defaults:
    steps: int
    rate: float = 0.5
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])


class Point(NamedTuple):
    x: int


class Model:
    """Has the interface of a pydantic model."""

    def model_dump(self) -> dict[str, Any]:
        return {"lr": 0.1}


OPTIMIZER = "<class 'torch.optim.adamw.AdamW'>"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Plain, {"lr": 0.1, "layers": [2, 3], "optimizer": OPTIMIZER, "Model": {"dim": 64}}),
        (Child, {"lr": 0.1, "layers": [4, 4], "optimizer": OPTIMIZER, "Model": {"dim": 64}}),
        (
            Plain(),
            {
                "lr": 0.2,
                "layers": [2, 3],
                "optimizer": OPTIMIZER,
                "Model": {"dim": 64},
                "inner": {"depth": 3},
            },
        ),
        (Part(), {"depth": 3}),
        (Defaults, {"rate": 0.5, "names": ["a"]}),
        (Defaults(7), {"steps": 7, "rate": 0.5, "names": ["a"]}),
        (Model(), {"lr": 0.1}),
        (Point(1), {"x": 1}),
        (argparse.Namespace(lr=0.1), {"lr": 0.1}),
        (SimpleNamespace(lr=0.1), {"lr": 0.1}),
        (Mappinglike(), {"lr": 0.1, "steps": [3, 4]}),
        (types.SimpleNamespace(), {}),
        ([1], [1]),
        ("text", "text"),
        (None, None),
        (dict, "<class 'dict'>"),
    ],
)
def test_a_configuration_of_any_kind_is_read(given: Any, expected: Any) -> None:
    """Of classes, plain objects and dataclass types, the settings are read, not the ``repr``."""
    assert settings_of(given) == expected


@pytest.mark.parametrize(
    ("given", "kind", "shown"),
    [
        (["--lr", "0.1"], "a list", ["--lr", "0.1"]),
        (7, "an int", 7),
        ("base.yaml", "a str", "base.yaml"),
    ],
)
def test_a_configuration_without_names_is_kept_with_a_warning(
    given: Any, kind: str, shown: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The value is shown under ``value``, and one warning says what to pass instead."""
    with watched(config=given) as (run, _):
        assert run._run_info.config == {"value": shown}
    assert caplog.text.count(f"config is {kind}, expected a mapping such as vars(args)") == 1


def test_a_configuration_with_names_causes_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Neither does a run without a configuration."""
    for config, shown in ((None, None), ({}, {}), (argparse.Namespace(lr=0.1), {"lr": 0.1})):
        with watched(config=config) as (run, _):
            assert run._run_info.config == shown
    assert "config is" not in caplog.text


def test_an_object_in_a_mapping_is_not_read() -> None:
    """A dataset among the settings is sent as its type name only."""
    assert "Part object" in settings_of({"dataset": Part()})["dataset"]


def test_a_module_is_read_as_a_configuration() -> None:
    """``import config; watch(config=config)``."""
    module = types.ModuleType("config")
    exec("import math\nLR = 0.1\nrounds = 3\ndef build(): ...\nclass Net: ...", vars(module))
    assert settings_of(module) == {"LR": 0.1, "rounds": 3}


def test_non_finite_numbers_stay() -> None:
    """Infinity and NaN are kept as they are."""
    assert plain(math.inf) == math.inf
    assert math.isnan(plain(torch.tensor(math.nan)))


def test_depth_size_and_loops_are_bounded() -> None:
    """A deep, a wide and a circular configuration are cut."""
    deep: Any = 0
    for _ in range(DEPTH + 5):
        deep = [deep]
    assert "..." in str(plain(deep))
    assert len(plain(range(10 * ITEMS))) <= ITEMS
    circle: dict[str, Any] = {}
    circle["self"] = circle
    assert plain(circle) == {"self": "..."}


def test_a_type_is_sent_as_its_name() -> None:
    """A class is neither a dataclass instance nor a mapping."""
    assert "Inner" in plain(Inner)
    assert "dict" in plain(dict)


_leaves = st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary()
_trees = st.recursive(_leaves, lambda kids: st.lists(kids) | st.dictionaries(st.text(), kids), max_leaves=50)


@given(_trees)
def test_any_configuration_can_be_encoded(tree: Any) -> None:
    """The result is unchanged after encoding and decoding with msgpack."""
    described = plain(tree)
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(described))
    assert repr(back) == repr(described)  # a NaN is equal to nothing


def test_a_value_that_cannot_be_read_does_not_hide_the_others() -> None:
    """As in a DictConfig, with values that are required or refer to what is not there."""

    class Required(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            if key == "data":
                raise LookupError("required")
            return super().__getitem__(key)

        def items(self) -> Any:
            raise LookupError("required")

    read = plain(Required(lr=0.1, data=None, steps=10))
    assert read == {"lr": 0.1, "data": "<could not be read: LookupError>", "steps": 10}
