"""What other packages need of SQLAlchemy: types of connections and rows, and the errors of a database.

Statements are written in this package only, so ``sqlalchemy`` is imported in no other one.
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
