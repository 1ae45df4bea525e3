"""Lines of output: progress bars, terminal colors, secrets, limits."""

from __future__ import annotations

import pytest

from tocsin.core.redaction import REDACTED, Redactor
from tocsin.media.console_lines import LONGEST, WAITING_CHARACTERS, Line, LineAssembler, LineRedactor, Written

STATE_NS = 10**10


def assembled(*texts: str, stream: str = "out") -> LineAssembler:
    """Return an assembler that got these pieces."""
    found = LineAssembler()
    for text in texts:
        found.add(Written(1, 7, stream, text))
    return found


def texts(found: LineAssembler) -> list[str]:
    """Return the texts of the lines that wait."""
    return [line.text for line in found.lines]


def clean(*lines: str, redact: Redactor | None = None) -> list[str]:
    """Return the lines as they are sent."""
    redactor = LineRedactor(redact or Redactor())
    return [redactor.clean(Line(1, 7, "out", line)) for line in lines]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (("a", "\n", "b\nc", "\n"), ["a", "b", "c"]),
        (("\r 10%", "\r 20%", "\r100%", "\n"), ["100%"]),
        (("10%\r", "20%\r", "\n"), ["20%"]),
        (("a\r\nb\r", "\n"), ["a", "b"]),
        (("first\r\r\n",), ["first"]),
        (("\n\n",), ["", ""]),
    ],
)
def test_a_line_is_what_the_terminal_shows(pieces: tuple[str, ...], lines: list[str]) -> None:
    assert texts(assembled(*pieces)) == lines


def test_streams_are_joined_separately() -> None:
    found = assembled("out, ")
    found.add(Written(2, 7, "err", "problem\n"))
    found.add(Written(3, 8, "out", "end\n"))
    assert [(line.stream, line.text, line.step) for line in found.lines] == [
        ("err", "problem", 7),
        ("out", "out, end", 8),
    ]


def test_a_progress_bar_is_shown_again_only_if_it_changed_and_after_a_while() -> None:
    found = assembled("\r 10%")
    found.show_open(STATE_NS)
    found.show_open(3 * STATE_NS)
    found.add(Written(1, 7, "out", "\r 20%"))
    found.show_open(STATE_NS + 1)
    assert [(line.text, line.is_open) for line in found.lines] == [(" 10%", True)]
    found.show_open(3 * STATE_NS)
    assert texts(found) == [" 10%", " 20%"]


def test_a_line_that_never_ends_is_bounded_and_shown_at_the_end() -> None:
    found = assembled(*["x" * 1000] * 100)
    found.show_open(1, at_end=True)
    (line,) = found.lines
    assert (len(line.text), line.is_open) == (4 * LONGEST, False)


def test_the_newest_lines_win_and_the_others_are_counted() -> None:
    found = assembled(*(f"line {number}\n" for number in range(10_000)))
    assert found.size <= WAITING_CHARACTERS
    kept = len(found.lines)
    assert found.dropped == 10_000 - kept
    assert [line.text for line in found.take(80)] == ["line 9998", "line 9999"]
    assert (found.dropped, found.size) == (9_998, 0)


def test_colors_control_characters_and_surrogates_are_removed() -> None:
    assert clean("\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b[Adone\x00\x07\tend \ud800") == ["red done\tend ?"]


def test_a_long_line_is_cut_after_secrets_are_replaced() -> None:
    token = "hf_" + "A" * 34
    (text,) = clean("x" * (LONGEST - 10) + " " + token + "y" * 100)
    assert "hf_A" not in text
    assert len(text) < LONGEST + 40


def test_secrets_are_replaced() -> None:
    assert clean("api_key=abcdefgh12345678", "loss=0.5") == [f"api_key={REDACTED}", "loss=0.5"]
    assert clean("api_key=abcdefgh12345678", redact=Redactor(off=True)) == ["api_key=abcdefgh12345678"]


def test_a_private_key_over_several_lines_is_replaced() -> None:
    lines = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA", "-----END RSA PRIVATE KEY-----", "after"]
    assert clean(*lines) == [REDACTED, REDACTED, REDACTED, "after"]
