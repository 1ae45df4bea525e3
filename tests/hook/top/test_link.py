"""What is said about the connection. Pure."""

from __future__ import annotations

from tocsin.top.link import Link


def test_an_outage_is_dated_from_its_first_request() -> None:
    link = Link()
    link.restored(0.0)
    link.lost(60.0)
    said = link.text()
    link.lost(120.0)
    assert (link.text(), link.is_lost) == (said, True)
    assert said.startswith("The server has not responded since ")
    link.restored(180.0)
    assert (link.text(), link.is_lost) == ("", False)


def test_a_rejected_request_says_why() -> None:
    link = Link()
    link.rejected("There is no run 'x'.", 0.0)
    assert (link.text(), link.is_lost) == ("There is no run 'x'.", False)
