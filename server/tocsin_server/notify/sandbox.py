"""Deny this process what sending a notification does not need: files, programs, private addresses.

Two mechanisms enforce this. An audit hook of the interpreter (every platform; it cannot be removed) checks
files, programs and connections just before they are opened. With Landlock (Linux 5.13 and later, if enabled)
the kernel denies access to files, also for native code. Both use the same list of what may be read: the
Python installation, the system's libraries, and what name resolution and TLS need.
"""

from __future__ import annotations

import ctypes
import os
import ssl
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tocsin_server.notify.address import is_public

REFUSED = "rejected: an address inside the server's own network"
SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/System", "/Library",
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd", "/var/run/nscd",
    "/dev/null", "/dev/random", "/dev/urandom", "/var/lib/ca-certificates",
    *(f"/etc/{name}" for name in (
        "alternatives", "ca-certificates", "crypto-policies", "gai.conf", "host.conf", "hosts",
        "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf",
        "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols",
        "resolv.conf", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "timezone",
    )),
)  # fmt: skip
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Environment variables that name certificates."""
READING = frozenset({"open", "os.listdir", "os.scandir"})
CHANGING = frozenset({
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
    "os.truncate", "os.utime",
})  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
STARTING = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
    "pty.spawn", "os.startfile", "os.startfile/2",
})  # fmt: skip
CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
Hook = Callable[[str, tuple[Any, ...]], None]


def confine(folder: Path, note: Callable[[str], None], *, private: bool) -> bool:
    """Give up access to programs, private addresses, and files outside the installation and ``folder``.

    Args:
        folder: The only folder in which this process may write.
        note: Called with a sentence for every denied connection.
        private: Whether addresses inside the server's network are allowed.

    Returns:
        Whether the kernel enforces the restriction on files (Landlock).
    """
    readable = roots()
    enforced = landlock(readable, folder)
    sys.addaudithook(files_guard(readable, folder))
    if not private:
        sys.addaudithook(address_guard(note))
    return enforced


def roots() -> list[Path]:
    """Return the existing paths that may be read, with symbolic links resolved."""
    certificates = ssl.get_default_verify_paths()
    named = [sys.prefix, sys.base_prefix, *filter(None, sys.path), *SYSTEM]
    named += [each for each in (certificates.cafile, certificates.capath) if each]
    named += [os.environ[name] for name in CERTIFICATES if os.environ.get(name)]
    found = {Path(os.path.realpath(each)) for each in named if os.path.exists(each)}
    return sorted(found - {Path("/")})


def address_guard(note: Callable[[str], None]) -> Hook:
    """Return an audit hook that denies private addresses and sockets other than internet sockets."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CONNECTING:
            return
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
        if not isinstance(host, str) or not is_public(host):
            note(f"{REFUSED} ({host})")
            raise PermissionError(f"{REFUSED} ({host})")

    return hook


def files_guard(readable: Iterable[Path], writable: Path) -> Hook:
    """Return an audit hook that denies files outside of these paths, and all programs."""
    own = os.path.join(os.path.realpath(writable), "")
    places = (own, *(os.path.join(each, "") for each in readable))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in STARTING:
            raise PermissionError("rejected: notifications must not start programs")
        if event not in READING and event not in CHANGING:
            return
        writes = event in CHANGING or (event == "open" and bool((arguments[2] or 0) & WRITING))
        paths = arguments if event in CHANGING else arguments[:1]
        for path in paths:
            if isinstance(path, int):  # an open file, or a mode
                continue
            place = os.path.join(os.path.realpath(os.fsdecode(path or ".")), "")
            if not place.startswith(own if writes else places):
                raise PermissionError("rejected: notifications must not use this file")

    return hook


# Landlock by its system calls, which have the same numbers on all architectures

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _BY_VERSION, _BENEATH = 38, 1, 1
_EXECUTE, _READ_FILE, _READ_DIR, _TRUNCATE, _DEVICE = 1 << 0, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_FIRST = (1 << 13) - 1
"""All access rights of the first version: execute, write, read, list, remove and create each kind."""
_OF_FILES = _EXECUTE | 1 << 1 | _READ_FILE | _TRUNCATE | _DEVICE


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock(readable: Iterable[Path], writable: Path) -> bool:
    """Make the kernel deny all other files to this process from now on.

    Returns:
        False if Landlock is not available; then nothing was changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), _BY_VERSION)
    if version < 1:
        return False
    handled = _FIRST | (1 << 13 if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    asked = ctypes.c_uint64(handled)
    rules = libc.syscall(_CREATE, ctypes.byref(asked), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            _allow(libc, rules, path, _EXECUTE | _READ_FILE | _READ_DIR)
        _allow(libc, rules, writable, handled & ~_EXECUTE)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    """Allow ``rights`` on ``path`` and everything below it; a missing path is skipped."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = _Beneath(rights if path.is_dir() else rights & _OF_FILES, place)
        libc.syscall(_ADD, rules, _BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)
