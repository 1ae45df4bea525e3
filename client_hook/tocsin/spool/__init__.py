"""The log of records, which survives the process: blocks in shared memory and in segment files."""
