"""Encryption and identification of push messages, against RFC 8291 and a browser of the test."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tests.server.push_service import SubscribedBrowser, data_of, text_of, vapid
from tocsin_server.notify.web_push import (
    MOST_PLAIN,
    RECORD_BYTES,
    Subscription,
    VapidKey,
    encrypt,
    read_auth,
    read_public_key,
)

BROWSER = SubscribedBrowser("https://push.example.net/x")
PLAIN = b"When I grow up, I want to be a watermelon"
EXAMPLE = {
    "public": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
    "own": "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
    "salt": "DGv6ra1nlYgDCS1FRnbzlw",
    "body": "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLo"
    "cInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
}
"""RFC 8291, section 5 and appendix A."""


def of(browser: SubscribedBrowser) -> Subscription:
    return Subscription("id", browser.endpoint, browser.public_key, browser.auth)


def test_the_example_of_rfc_8291() -> None:
    """The same keys and salt give the same bytes."""
    subscription = Subscription("id", "", read_public_key(EXAMPLE["public"]), read_auth(EXAMPLE["auth"]))
    own = ec.derive_private_key(int.from_bytes(data_of(EXAMPLE["own"])), ec.SECP256R1())
    body = encrypt(PLAIN, subscription, salt=data_of(EXAMPLE["salt"]), own_key=own)
    assert text_of(body) == EXAMPLE["body"]


@given(st.binary(max_size=MOST_PLAIN))
def test_the_browser_decrypts_every_message(plain: bytes) -> None:
    """Up to the largest; the body fits into what push services accept."""
    body = encrypt(plain, of(BROWSER))
    assert BROWSER.decrypted(body) == plain
    assert len(body) <= RECORD_BYTES


def test_the_largest_message_fits_and_a_larger_one_is_rejected() -> None:
    assert len(encrypt(bytes(MOST_PLAIN), of(BROWSER))) == RECORD_BYTES
    with pytest.raises(ValueError, match="at most"):
        encrypt(bytes(MOST_PLAIN + 1), of(BROWSER))


def test_another_browser_cannot_decrypt_it() -> None:
    """Not even with the same authentication secret."""
    other = SubscribedBrowser(BROWSER.endpoint, auth=BROWSER.auth)
    with pytest.raises(InvalidTag):
        other.decrypted(encrypt(b"secret", of(BROWSER)))


def test_a_message_is_never_encrypted_twice_alike() -> None:
    assert encrypt(b"same", of(BROWSER)) != encrypt(b"same", of(BROWSER))


def test_the_server_identifies_itself() -> None:
    """For the origin of the endpoint only, with the key that browsers subscribe to."""
    key = VapidKey(VapidKey.new())
    claims, public = vapid(
        key.authorization("https://push.example.net:8443/a?b", "https://tocsin.lab", 1000.5)
    )
    assert claims == {
        "aud": "https://push.example.net:8443",
        "exp": 1000 + 43200,
        "sub": "https://tocsin.lab",
    }
    assert public == key.public


@pytest.mark.parametrize("text", ["", "xyz", "ä", "0" * 64, "f" * 64, "00" * 31])
def test_a_damaged_key_is_rejected(text: str) -> None:
    """Not hexadecimal, of another length, or outside the curve."""
    with pytest.raises(ValueError):
        VapidKey(text)


@pytest.mark.parametrize("text", ["", "AAAA", "ä", text_of(b"\x04" + bytes(64)), text_of(bytes(65))])
def test_a_key_that_is_no_point_of_the_curve_is_rejected(text: str) -> None:
    """Such a key would reveal the message."""
    with pytest.raises(ValueError):
        read_public_key(text)
