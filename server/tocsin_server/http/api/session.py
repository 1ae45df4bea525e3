"""``GET /session``: who the page's reader is, and what the page needs to know of the server."""

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
    """Who is logged in, and this server's addresses and versions."""

    name: str
    scope: Scope
    ingest_url: str
    version: str
    plotly: str


@router.get("/session", response_model=SessionAnswer)
def session(request: Request, identity: Reader) -> ExactJSON:
    """Name and scope of the caller, the address trainers report to, and the versions in use."""
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
    """What a trainer passes as ``url=``: the public address, else the one this request came by."""
    settings = services_of(request).settings
    here = f"{request.url.scheme}://{request.headers.get('host', '')}{settings.root_path}"
    return settings.public_url or here
