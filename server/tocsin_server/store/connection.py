"""SQLAlchemy names for other packages: connections, rows and database errors.

Only this package contains SQL statements, so no other package imports ``sqlalchemy``.
"""

from sqlalchemy import URL, Connection, Row, make_url
from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError, SQLAlchemyError

__all__ = [
    "URL",
    "Connection",
    "DataError",
    "IntegrityError",
    "ProgrammingError",
    "Row",
    "SQLAlchemyError",
    "make_url",
]
