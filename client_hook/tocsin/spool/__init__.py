"""Records on local disk that survive the process: a buffer in shared memory and segment files."""
