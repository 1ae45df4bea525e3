"""Entry point of Alembic: run the revisions on the connection that ``store.database`` opened."""

from alembic import context

from tocsin_server.store import rule_tables  # noqa: F401 - its tables are part of the schema
from tocsin_server.store.tables import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError(
        "Migrations need the server's own connection. Run `tocsin-server migrate` instead of alembic."
    )

context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
