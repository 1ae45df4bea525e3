"""Entry point of Alembic: run the revisions on the connection that ``store.database`` opened."""

from alembic import context

from tocsin_server.store import rule_tables, views  # noqa: F401 - these tables are part of the schema
from tocsin_server.store.database import HEAD
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
    views.drop(connection)  # a database does not change a table that a view uses
    context.run_migrations()
    if context.get_context().get_current_heads() == (HEAD,):
        views.create(connection)
