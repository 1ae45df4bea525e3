"""The wire protocol: golden bytes of every message, exact values, and invalid data."""

from __future__ import annotations

import contextlib
import json
import struct
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol

MESSAGES = Path(__file__).parents[1] / "messages"
GOLDEN = sorted(path.stem for path in MESSAGES.glob("*.json"))
TYPES = {
    kind.__struct_config__.tag: kind
    for kind in (*get_args(protocol.ClientMessage), *get_args(protocol.ServerMessage))
}
INT64 = st.integers(-(2**63), 2**63 - 1)
BITS = st.integers(0, 2**64 - 1)


def described(name: str) -> dict[str, Any]:
    """Return the description of a golden message."""
    description: dict[str, Any] = json.loads((MESSAGES / f"{name}.json").read_text())
    return description


def golden(name: str) -> bytes:
    """Return the golden bytes."""
    return (MESSAGES / f"{name}.msgpack").read_bytes()


def decode(name: str) -> Any:
    """Decode as the receiving side does."""
    side = protocol.decode_client if described(name)["from"] == "trainer" else protocol.decode_server
    return side(golden(name))


def message_of(name: str) -> Any:
    """Return the described message."""
    fields = revived(described(name)["message"])
    kind = TYPES[fields.pop("type")]
    if "writer" in fields:
        fields["writer"] = protocol.WriterId(**fields["writer"])
    if "cols" in fields:
        columns = fields["cols"].items()
        fields["cols"] = {key: protocol.Sparse(**c) if isinstance(c, dict) else c for key, c in columns}
    return kind(**fields)


def revived(value: Any) -> Any:
    """Convert ``{"hex": ...}`` to bytes, at any depth."""
    if isinstance(value, dict):
        if value.keys() == {"hex"}:
            return bytes.fromhex(value["hex"])
        return {key: revived(item) for key, item in value.items()}
    if isinstance(value, str):
        return sys.intern(value)  # msgspec omits a default string only if it is the same object
    return [revived(item) for item in value] if isinstance(value, list) else value


def test_every_message_type_has_a_golden_message() -> None:
    """Every message type has a golden copy."""
    assert {described(name)["message"]["type"] for name in GOLDEN} == set(TYPES)


@pytest.mark.parametrize("name", [name for name in GOLDEN if not described(name).get("newer")])
def test_message_encodes_to_its_golden_bytes(name: str) -> None:
    """The bytes are those of the time when the protocol was fixed."""
    assert protocol.encode(message_of(name)) == golden(name)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_decode_to_the_message(name: str) -> None:
    """Old bytes can still be decoded; fields of a newer peer are ignored."""
    assert decode(name) == message_of(name)


def test_non_finite_values_have_the_bits_they_were_sent_with() -> None:
    """NaN with its payload, both infinities, -0.0 and subnormals arrive bit for bit."""
    records = decode("records-non-finite")
    bits = [f"{word:016x}" for word in struct.unpack("<6Q", records.cols["loss"])]
    assert bits == [
        "7ff8000000000000",
        "7ff0000000000000",
        "fff0000000000000",
        "8000000000000000",
        "7ff80000deadbeef",
        "0000000000000001",
    ]
    assert struct.unpack("<3I", records.cols["grad_norm"].at) == (1, 3, 5)


@given(BITS.map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]))
def test_any_float_survives_packing(value: float) -> None:
    """All 2^64 bit patterns are preserved; signaling NaNs as the platform passes them."""
    sent = protocol.Records(0, 1, b"", b"", {"loss": protocol.little_endian("d", [value])})
    received = protocol.decode_client(protocol.encode(sent))
    assert isinstance(received, protocol.Records)
    assert received.cols["loss"] == struct.pack("<d", value)


@given(
    seq=INT64,
    steps=st.lists(INT64, max_size=8),
    columns=st.dictionaries(st.text(), st.binary() | st.builds(protocol.Sparse, st.binary(), st.binary())),
)
def test_records_round_trip(seq: int, steps: list[int], columns: dict[str, protocol.Column]) -> None:
    """All records that a client can send are equal after decoding."""
    packed = protocol.little_endian("q", steps)
    sent = protocol.Records(seq, len(steps), packed, packed, columns)
    assert protocol.decode_client(protocol.encode(sent)) == sent


@given(
    st.builds(protocol.Ack, INT64, INT64, INT64)
    | st.builds(protocol.Refused, st.text(), st.text(), st.text(), st.text())
)
def test_server_messages_round_trip(sent: protocol.Ack | protocol.Refused) -> None:
    """All messages of the server are equal after decoding."""
    assert protocol.decode_server(protocol.encode(sent)) == sent


@given(st.binary(max_size=200))
def test_noise_is_a_protocol_error_or_a_message(frame: bytes) -> None:
    """No bytes raise anything but a ProtocolError."""
    with contextlib.suppress(protocol.ProtocolError):
        assert isinstance(protocol.decode_client(frame), tuple(TYPES.values()))


@given(st.sampled_from(GOLDEN), st.data())
def test_damaged_messages_never_raise_anything_else(name: str, data: st.DataObject) -> None:
    """A golden message with one changed byte, or truncated, decodes or raises a ProtocolError."""
    frame = bytearray(golden(name))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(0, len(frame)))])
    for decoder in (protocol.decode_client, protocol.decode_server):
        with contextlib.suppress(protocol.ProtocolError):
            assert isinstance(decoder(cut), tuple(TYPES.values()))


@pytest.mark.parametrize(
    ("frame", "got"),
    [
        (b"", "truncated"),
        (b"hello", "got Expected `object`, got `int`"),
        (golden("alive")[:-1], "truncated"),
        (golden("alive") + b"\x00", "trailing"),
        (msgspec.msgpack.encode({"type": "shrug"}), "'shrug'"),
        (msgspec.msgpack.encode({"no": 1}), "missing required field `type`"),
        (msgspec.msgpack.encode({"type": "alive", "t": 2**63}), "9223372036854775807"),
        (msgspec.msgpack.encode({"type": "alive", "t": "now"}), "`str` - at `$.t`"),
        (b"\x82\xa4type\xa5hello\xa6config" + b"\x91" * 100_000, "recursion"),
    ],
)
def test_malformed_frame_says_what_was_expected_and_what_came(frame: bytes, got: str) -> None:
    """A frame that is not a message is rejected with a description."""
    with pytest.raises(protocol.ProtocolError) as caught:
        protocol.decode_client(frame)
    assert caught.value.code == "malformed-frame"
    assert "expected a msgpack message of protocol version 1, got" in str(caught.value)
    assert got in str(caught.value)


def test_sides_do_not_take_each_others_messages() -> None:
    """A client cannot send an ack, a server cannot send records."""
    with pytest.raises(protocol.ProtocolError):
        protocol.decode_client(golden("ack"))
    with pytest.raises(protocol.ProtocolError):
        protocol.decode_server(golden("records"))


@pytest.mark.parametrize(("version", "oldest"), [(1, 1), (2, 1), (9, 1)])
def test_both_sides_agree_on_the_lower_version(version: int, oldest: int) -> None:
    """With a newer client that supports version 1, version 1 is used."""
    assert protocol.agree(version, oldest) == 1


@pytest.mark.parametrize(("version", "oldest"), [(3, 2), (0, 0)])
def test_no_common_version_is_refused_with_both_ranges(version: int, oldest: int) -> None:
    """A client that is too new or too old gets an error with both ranges."""
    with pytest.raises(protocol.ProtocolError, match=f"expected 1 to 1, got {oldest} to {version}"):
        protocol.agree(version, oldest)
