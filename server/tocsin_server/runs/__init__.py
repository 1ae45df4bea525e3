"""Process the runs in memory: admission, validation, detection, commits, publication and the watchdog."""
