"""Messages of many training processes leave other work its turn."""

import asyncio

from tocsin_server.runs.fair_share import FairShare


async def _iterations(messages: int, at_once: int) -> list[int]:
    """Return in which iteration of the event loop each message was processed."""
    share, processed, now = FairShare(at_once), list[int](), 0

    async def message() -> None:
        await share.turn()
        processed.append(now)

    tasks = [asyncio.create_task(message()) for _ in range(messages)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        now += 1
    return processed


def test_other_work_runs_between_messages() -> None:
    """No iteration of the event loop processes more messages than allowed."""
    processed = asyncio.run(_iterations(messages=50, at_once=8))
    assert len(processed) == 50
    assert max(map(processed.count, processed)) <= 8


def test_few_messages_do_not_wait() -> None:
    """As many messages as allowed are all processed in the first iteration."""
    assert set(asyncio.run(_iterations(messages=8, at_once=8))) == {0}


def test_a_closed_connection_takes_no_turn() -> None:
    """A message whose connection closes while it waits does not hold up the others."""

    async def waits() -> None:
        share = FairShare(1)
        await share.turn()
        closed, other = asyncio.create_task(share.turn()), asyncio.create_task(share.turn())
        await asyncio.sleep(0)
        closed.cancel()
        await asyncio.wait_for(other, 5)

    asyncio.run(waits())
