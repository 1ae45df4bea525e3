"""Store the links of embedded charts that were given out, so that each can be revoked."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, or_, select

from tocsin_server.store.damage import values_of
from tocsin_server.store.tables import embed_link, run


@dataclass(frozen=True, slots=True)
class EmbedLink:
    """A link to a chart of a run that is shown until a Unix time in seconds."""

    id: str
    run_id: str
    chart: str
    author: str
    created_ns: int
    until_s: int


def add_link(connection: Connection, row: EmbedLink, now_s: int) -> None:
    """Store a link, and drop those that have expired or whose run was deleted."""
    gone = or_(embed_link.c.until_s <= now_s, embed_link.c.run_id.not_in(select(run.c.id)))
    connection.execute(delete(embed_link).where(gone))
    connection.execute(embed_link.insert(), asdict(row))


def count_links(connection: Connection, now_s: int) -> int:
    """Return the number of links that have not expired."""
    query = select(func.count()).select_from(embed_link).where(embed_link.c.until_s > now_s)
    return int(connection.execute(query).scalar_one())


def links(connection: Connection, now_s: int) -> list[tuple[EmbedLink, str]]:
    """Return the links that show a chart, newest first, each with the name of its run."""
    query = (
        select(embed_link, run.c.name.label("run_name"))
        .join(run, run.c.id == embed_link.c.run_id)
        .where(embed_link.c.until_s > now_s)
        .order_by(embed_link.c.created_ns.desc(), embed_link.c.id)
    )
    return [(EmbedLink(**values_of(embed_link, row)), row.run_name) for row in connection.execute(query)]


def read_link(connection: Connection, link_id: str) -> EmbedLink | None:
    """Return one link, or None if there is none or it was revoked."""
    row = connection.execute(select(embed_link).where(embed_link.c.id == link_id)).first()
    return None if row is None else EmbedLink(**values_of(embed_link, row))


def delete_link(connection: Connection, link_id: str) -> None:
    """Revoke a link."""
    connection.execute(delete(embed_link).where(embed_link.c.id == link_id))
