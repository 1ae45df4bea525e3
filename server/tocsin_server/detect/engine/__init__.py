"""The engine: records of one run in, findings out."""
