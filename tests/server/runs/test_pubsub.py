"""The hub delivers what each listener subscribed to, with bounded memory."""

from __future__ import annotations

import asyncio

from tocsin_server.core.models import Alert, AlertState, Diagnosis, Severity, Transition
from tocsin_server.runs.pubsub import KEPT_ALERTS, KEPT_BYTES, Hub


def transition(run_id: str, episode: int = 1) -> Transition:
    alert = Alert(
        run_id,
        "f",
        episode,
        "r",
        "",
        Severity.INFO,
        AlertState.FIRING,
        0,
        0,
        None,
        0,
        0,
        None,
        None,
        "s",
        Diagnosis("c"),
    )
    return Transition(alert, None, 0)


def test_a_listener_receives_what_it_subscribed_to() -> None:
    """A listener of all runs gets everything; one of a run gets only that run."""
    hub = Hub()
    with hub.listen() as every, hub.listen("a") as one:
        hub.committed("a", 3)
        hub.committed("b", 4)
        hub.changed("b")
        hub.alert(transition("b"))
        assert every.take_dirty() == ({"a": 3, "b": 4}, {"b"})
        assert one.take_dirty() == ({"a": 3}, set())
        assert (len(every.take_alerts()), len(one.take_alerts())) == (1, 0)
        assert every.take_dirty() == ({}, set())


def test_a_sleeping_listener_keeps_one_number_a_run() -> None:
    """However many commits occur, a listener stores the newest arrival of each run."""
    hub = Hub()
    with hub.listen() as listener:
        for arrival in range(10_000):
            hub.committed("a", arrival)
        assert listener.committed == {"a": 9_999}


def test_alerts_beyond_the_bound_are_counted() -> None:
    """The newest alerts are kept, and the number of dropped ones is reported."""
    hub = Hub()
    with hub.listen() as listener:
        for episode in range(KEPT_ALERTS + 5):
            hub.alert(transition("a", episode))
        assert listener.missed == 5
        assert listener.take_alerts()[0].alert.episode == 5


def test_messages_are_bounded_by_their_bytes() -> None:
    """An idle listener keeps the newest megabytes, however few messages these are."""
    hub = Hub()
    with hub.listen() as page:
        for letter in "abcdefgh":
            hub.broadcast(letter * (1 << 20))
        assert [word[0] for word in page.take_broadcasts()] == ["f", "g", "h"]
        hub.broadcast("x" * (KEPT_BYTES + 1))
        assert len(page.take_broadcasts()) == 1


def test_waking_needs_no_polling() -> None:
    """A waiting listener wakes for a message, also one that arrived before it waited."""

    async def scene() -> None:
        hub = Hub()
        with hub.listen() as listener:
            asyncio.get_running_loop().call_soon(hub.changed, "a")
            await listener.wait()
            hub.changed("b")
            await listener.wait()
            assert listener.changed == {"a", "b"}

    asyncio.run(scene())


def test_a_closed_listener_is_removed() -> None:
    """A listener that unsubscribed uses no memory."""
    hub = Hub()
    with hub.listen() as listener:
        pass
    hub.changed("a")
    assert (listener.changed, hub.listeners) == (set(), {})


def test_messages_for_every_page_reach_listeners_of_all_runs() -> None:
    """A listener of one run does not get them; the delivery state is sent once per change."""
    hub = Hub()
    with hub.listen() as page, hub.listen("a") as client:
        hub.broadcast("note")
        hub.broadcast_deliveries("well")
        hub.broadcast_deliveries("well")
        assert page.take_broadcasts() == ["note", "well"]
        assert client.take_broadcasts() == []
        assert hub.deliveries == "well"
