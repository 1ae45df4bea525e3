"""``tocsin top``: runs, live charts and incidents in a terminal. Needs ``tocsin[terminal]``."""
