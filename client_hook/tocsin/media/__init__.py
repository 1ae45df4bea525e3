"""Images, histograms, texts and tables that a script logs: small, bounded in number, named by their content.

    run.log({"samples": tocsin.Image(batch[0])})

An object takes a snapshot when it is made: at most ``SIDE`` x ``SIDE`` pixels or ``VALUES`` values, without
waiting for a device. The sender's thread encodes it later.
"""

from .image import Image
from .objects import Histogram, Media, Table, Text

__all__ = ["Histogram", "Image", "Media", "Table", "Text"]
