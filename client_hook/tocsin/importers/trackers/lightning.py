"""Lightning's loggers: ``lightning_logs/version_0`` with ``metrics.csv``, ``hparams.yaml`` or both."""

from __future__ import annotations

from .. import UnreadableLogError, open_log
from ..formats.lightning import FORMAT
from ..items import About
from ..settings_file import scalars
from ..source import TrackedRun, UnreadableSource
from ..tracker import Claim, Folder, Tracker
from .tensorboard import is_event_file

METRICS, SETTINGS = "metrics.csv", "hparams.yaml"


def _find(folder: Folder) -> Claim | None:
    """Return the run of ``metrics.csv``. TensorBoard files beside it repeat its values.

    A training that crashed before its first log leaves an empty one.
    """
    if METRICS not in folder.files:
        return None
    path = folder.path / METRICS
    about = About(config=scalars(folder.path / SETTINGS))
    if not path.stat().st_size and SETTINGS in folder.files:
        return Claim([TrackedRun(folder.path, FORMAT.name, about, lambda: iter(()))], {METRICS, SETTINGS})
    try:
        log = open_log(path)
    except UnreadableLogError as error:
        if not (folder.path / SETTINGS).is_file():
            return None
        why = str(error).removeprefix(f"{path}: ")
        return Claim([UnreadableSource(path, why)], {METRICS})
    if log.format is not FORMAT:
        return None
    events = {name for name in folder.files if is_event_file(name)}
    return Claim([TrackedRun(folder.path, FORMAT.name, about, log.rows)], {METRICS, SETTINGS, *events})


TRACKER = Tracker("Lightning", 10, _find)
