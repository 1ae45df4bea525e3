"""The engine turns the records of a run into findings."""
