"""One module per tracker whose runs are folders, or rows of a database. Each defines ``TRACKER``."""
