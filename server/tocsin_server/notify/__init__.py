"""From an alert to a message: whom it concerns, when, in which words. Row 1; no database.

``routing``, ``inhibition``, ``silences``, ``mute``, ``grouping`` and ``limit`` decide and are
pure; ``message`` and ``picture`` make what is sent; ``channels/`` sends it, one file a channel.
"""
