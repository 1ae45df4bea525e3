"""Write the body of a ``multipart/form-data`` request with one file."""

from __future__ import annotations

import secrets
from collections.abc import Mapping


def multipart(fields: Mapping[str, tuple[str, bytes]], file: tuple[str, str, bytes]) -> tuple[bytes, str]:
    """Return the body and its content type.

    Args:
        fields: Name -> content type and value.
        file: Name of the field, name of the file, and a PNG.
    """
    edge = secrets.token_hex(16)
    name, filename, picture = file
    parts = [(f'name="{each}"', kind, value) for each, (kind, value) in fields.items()]
    parts.append((f'name="{name}"; filename="{filename}"', "image/png", picture))
    written = b"".join(
        f"--{edge}\r\nContent-Disposition: form-data; {head}\r\nContent-Type: {kind}\r\n\r\n".encode()
        + value
        + b"\r\n"
        for head, kind, value in parts
    )
    return written + f"--{edge}--\r\n".encode(), f"multipart/form-data; boundary={edge}"
