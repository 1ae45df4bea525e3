"""Run a function within a context manager at each call, whatever kind of function it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing
from typing import Any


def within(begin: Callable[[], AbstractContextManager[Any]], function: Callable[..., Any]) -> Any:
    """Return the function so that each call runs in a new context.

    The context of a generator or a coroutine begins when it is first resumed and lasts until it ends. A
    generator keeps ``send`` and ``throw``; an asynchronous one is only iterated.

    Args:
        begin: Returns a new context.
        function: A function, generator function, coroutine function or asynchronous generator function.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return function(*args, **kwargs)

    @functools.wraps(function)
    def generate(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return (yield from function(*args, **kwargs))

    @functools.wraps(function)
    async def wait(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return await function(*args, **kwargs)

    @functools.wraps(function)
    async def iterate(*args: Any, **kwargs: Any) -> Any:
        with begin():
            async with aclosing(function(*args, **kwargs)) as items:
                async for item in items:
                    yield item

    if inspect.isasyncgenfunction(function):
        return iterate
    if inspect.iscoroutinefunction(function):
        return wait
    return generate if inspect.isgeneratorfunction(function) else call
