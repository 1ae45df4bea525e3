"""A decorated function of any kind runs in one context per call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pytest

import tocsin
from tocsin.core.decoration import within

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Decorator:
    """Decorates functions, and keeps the beginnings and ends of contexts."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, function: _Function) -> _Function:
        return cast("_Function", within(self.context, function))

    @contextmanager
    def context(self) -> Iterator[None]:
        self.seen.append("begin")
        try:
            yield
        finally:
            self.seen.append("end")


@pytest.fixture
def decorated() -> Decorator:
    """Return a decorator that has seen nothing."""
    return Decorator()


def test_a_generator_is_in_its_context_until_it_ends(decorated: Decorator) -> None:
    @decorated
    def steps() -> Generator[int, str, str]:
        decorated.seen.append((yield 1))
        return "result"

    run = steps()
    assert not decorated.seen
    assert next(run) == 1
    with pytest.raises(StopIteration, match="result"):
        run.send("sent")
    assert decorated.seen == ["begin", "sent", "end"]


def test_a_coroutine_is_in_its_context_until_it_returns(decorated: Decorator) -> None:
    @decorated
    async def train(value: int) -> int:
        await asyncio.sleep(0)
        decorated.seen.append("trained")
        return value

    assert asyncio.run(train(3)) == 3
    assert decorated.seen == ["begin", "trained", "end"]


def test_an_asynchronous_generator_is_closed_before_its_context(decorated: Decorator) -> None:
    @decorated
    async def steps() -> AsyncGenerator[int, None]:
        try:
            for step in range(9):
                yield step
        finally:
            decorated.seen.append("closed")

    async def first() -> int:
        run = steps()
        found = await anext(run)
        await run.aclose()
        return found

    assert asyncio.run(first()) == 0
    assert decorated.seen == ["begin", "closed", "end"]


def test_a_function_keeps_its_name_and_its_exception(decorated: Decorator) -> None:
    @decorated
    def fails() -> None:
        raise KeyError("mine")

    assert fails.__name__ == "fails"
    with pytest.raises(KeyError, match="mine"):
        fails()
    assert decorated.seen == ["begin", "end"]


def test_the_decorator_needs_no_parentheses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_DISABLE", "1")

    @tocsin.watched
    def train(lr: float) -> float:
        return lr

    assert train(0.5) == 0.5
