"""Turn alerts into messages: who gets them, when, and with which text. No database.

``routing``, ``inhibition``, ``silences``, ``mute_times``, ``grouping`` and ``hourly_limit`` are pure and
decide; ``message`` and ``chart_image`` build what is sent; ``channels/`` sends it, one module per kind.
"""
