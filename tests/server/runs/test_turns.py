"""What one run received is taken in order, whatever waits for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tocsin_server.runs.turns import Turn, Turns, Waiting


def noting(order: list[str], name: str) -> Turn:
    """Return a turn that is finished at once, and notes its name."""

    def turn(done: Callable[[], None]) -> None:
        order.append(name)
        done()

    return turn


class Held:
    """A turn that is finished when the test says so."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, done: Callable[[], None]) -> None:
        self.begun += 1
        self.finish = done


def test_a_turn_begins_once_the_one_before_is_finished() -> None:
    """A turn that is finished at once is over when ``add`` returns; behind another one it waits."""
    turns, first, second = Turns(), Held(), Held()
    turns.add(noting([], "at once"))
    assert turns.idle
    turns.add(first)
    turns.add(second)
    assert (first.begun, second.begun) == (1, 0)
    first.finish()
    assert (second.begun, turns.idle) == (1, False)


def test_waiting_turns_count_their_bytes() -> None:
    """The bytes of all runs are counted until each turn is finished or dropped."""
    waiting = Waiting()
    one, other, first = Turns(waiting), Turns(waiting), Held()
    one.add(first, 10)
    one.add(Held(), 100)
    other.add(Held(), 1000)
    assert waiting.bytes == 1110
    one.clear()
    first.finish()
    assert waiting.bytes == 1000


def test_a_turn_that_raises_does_not_block_the_run() -> None:
    """The error reaches the caller, and later turns begin."""
    turns, first, taken = Turns(), Held(), list[str]()

    def fail(_done: Callable[[], None]) -> None:
        raise ZeroDivisionError

    turns.add(first)
    turns.add(fail)
    turns.add(noting(taken, "later"))
    with pytest.raises(ZeroDivisionError):
        first.finish()
    assert (taken, turns.idle) == (["later"], True)


def test_a_turn_added_by_a_turn_comes_last() -> None:
    """It begins after those that waited already."""
    turns, order = Turns(), list[str]()

    def adding(done: Callable[[], None]) -> None:
        turns.add(noting(order, "added"))
        order.append("adding")
        done()

    first = Held()
    turns.add(first)
    turns.add(adding)
    turns.add(noting(order, "waiting"))
    first.finish()
    assert order == ["adding", "waiting", "added"]


def test_drained_returns_after_everything_before_it() -> None:
    """A handshake waits for the end of the attempt before it."""

    async def run() -> list[str]:
        turns, first, order = Turns(), Held(), list[str]()
        turns.add(first)
        waiter = asyncio.create_task(turns.drained())
        await asyncio.sleep(0)
        order.append(f"drained: {waiter.done()}")
        first.finish()
        await waiter
        return [*order, f"idle: {turns.idle}"]

    assert asyncio.run(run()) == ["drained: False", "idle: True"]
