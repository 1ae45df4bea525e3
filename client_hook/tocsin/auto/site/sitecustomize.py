"""Python imports this module at startup under ``tocsin run``, which puts its folder first on PYTHONPATH.

It is imported in every Python process that the command starts, also where tocsin is not installed, so it must
not fail. It then imports the ``sitecustomize`` that Python would have imported.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _MissingHook:
    """Meta path finder that warns when torch is imported, and finds nothing."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name == "torch" and self in sys.meta_path:
            sys.meta_path.remove(self)
            text = "tocsin: this process is not recorded, because tocsin is not installed in its environment"
            print(f"{text}. Run: {sys.executable or 'python'} -m pip install tocsin", file=sys.stderr)


sys.path[:] = [one for one in sys.path if one != _FOLDER]
try:
    import tocsin.auto.start  # noqa: F401
except ImportError:
    sys.meta_path.insert(0, _MissingHook())
except Exception as error:
    print(f"tocsin: this process is not recorded: {error!r}", file=sys.stderr)

_own = sys.modules.pop("sitecustomize", None)
try:
    __import__("sitecustomize")
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    if _own is not None:
        sys.modules["sitecustomize"] = _own
