"""Watch a training whose script does not mention tocsin: ``tocsin run``, and ``TOCSIN_AUTO=1``."""
