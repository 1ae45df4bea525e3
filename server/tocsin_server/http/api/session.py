"""``GET /session``: the logged-in user, and what a page needs to know about the server."""

from __future__ import annotations

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server import __version__
from tocsin_server.core.permissions import Scope
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of

router = resource("session")


class SessionAnswer(TypedDict):
    """The caller, and the addresses and versions of this server."""

    name: str
    scope: Scope
    ingest_url: str
    version: str
    plotly: str


@router.get("/session", response_model=SessionAnswer)
def session(request: Request, identity: Reader) -> ExactJSON:
    """Return the name and scope of the caller, the address for clients, and the versions in use."""
    return ExactJSON(
        {
            "name": identity.name,
            "scope": identity.scope,
            "ingest_url": ingest_url(request),
            "version": __version__,
            "plotly": request.app.state.plotly_version,
        }
    )


def ingest_url(request: Request) -> str:
    """Return the ``url=`` for clients: the public address, else the one of this request."""
    settings = services_of(request).settings
    here = f"{request.url.scheme}://{request.headers.get('host', '')}{settings.root_path}"
    return settings.public_url or here
