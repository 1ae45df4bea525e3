"""Scopes, identities and digests."""

from __future__ import annotations

import pytest

from tocsin_server.core.permissions import SECRET_PREFIX, Identity, Scope, digest_of, new_secret


@pytest.mark.parametrize(
    ("scope", "may"),
    [
        (Scope.INGEST, {Scope.INGEST}),
        (Scope.READ, {Scope.READ}),
        (Scope.WRITE, {Scope.READ, Scope.WRITE}),
        (Scope.ADMIN, set(Scope)),
    ],
)
def test_scopes_include_only_their_permissions(scope: Scope, may: set[Scope]) -> None:
    """Admin includes all, write includes read, a client's token grants nothing else."""
    identity = Identity("t", "someone", scope)
    assert {other for other in Scope if identity.may(other)} == may


def test_a_project_token_reports_to_its_project_only() -> None:
    """An ingest token is valid for its project; one without a project for any."""
    bound = Identity("t", "ci", Scope.INGEST, "deblur")
    assert bound.may_ingest("deblur")
    assert not bound.may_ingest("denoise")
    assert Identity("t", "ci", Scope.INGEST).may_ingest("denoise")


def test_a_read_token_may_not_report() -> None:
    """Reading and reporting are separate."""
    assert not Identity("t", "me", Scope.WRITE).may_ingest("deblur")


def test_secrets_are_long_and_never_alike() -> None:
    """A secret has 256 random bits after the prefix that secret scanners know."""
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(secret.startswith(SECRET_PREFIX) and len(secret) == len(SECRET_PREFIX) + 43 for secret in made)


def test_any_text_has_a_digest() -> None:
    """A hostile token (unpaired surrogate, NUL) is digested like others and matches none."""
    assert digest_of("\ud800\x00") != digest_of("")
