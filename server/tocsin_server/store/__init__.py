"""Everything about the database: tables, the writer thread, chunks and queries."""
