"""Read the arguments of ``tocsin.init``, which are those of ``wandb.init``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.config import keyed, settings_of
from .reporter import LOG

RESUME = ("allow", "must", "never", "auto", "true", "false", "")
"""Values of W&B's ``resume``. A run with an ``id`` that exists is always continued."""
IN_CONFIG = ("group", "job_type")
"""Arguments that become settings, by which the fleet is filtered: ``config.group=a``."""
CHOOSE = ("config_exclude_keys", "config_include_keys")
"""Arguments that choose the settings which are recorded."""
UNUSED = {
    "allow_val_change", "anonymous", "dir", "entity", "force", "monitor_gym", "save_code", "settings",
    "sync_tensorboard", "tensorboard",
}  # fmt: skip
"""Arguments of W&B without a meaning here."""


def options_of(given: Mapping[str, Any], known: frozenset[str]) -> tuple[dict[str, Any], bool]:
    """Return the options of ``watch``, and whether the run is disabled.

    Args:
        given: What the script passed to ``init``.
        known: Names of the parameters of ``watch``.
    """
    options = {name: value for name, value in given.items() if name in known and value is not None}
    resume, own = given.get("resume"), given.get("id")
    if own or str(resume).lower() in (*RESUME, "none"):
        options.pop("resume", None)
    if own:
        options["resume"] = str(own)
    if str(given.get("reinit")) == "create_new":
        options["parallel"] = True
    if isinstance(options.get("tags"), str):
        options["tags"] = [options["tags"]]
    if any(given.get(name) for name in (*IN_CONFIG, *CHOOSE)):
        options["config"] = _config_of(given)
    _warn_of(given, known)
    return options, given.get("mode") == "disabled"


def _config_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen settings of ``config``, and the arguments that become settings."""
    config = keyed(settings_of(given.get("config"))) or {}
    left_out, only = (given.get(name) for name in CHOOSE)
    chosen = {
        name: config[name] for name in only or config if name in config and name not in (left_out or ())
    }
    return {**chosen, **{name: given[name] for name in IN_CONFIG if given.get(name)}}


def _warn_of(given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Warn once of arguments that have no effect."""
    read = {*known, *IN_CONFIG, *UNUSED, "id", "mode", "reinit", *CHOOSE}
    if unknown := sorted(set(given) - read):
        LOG.warning("tocsin.init: unknown arguments are ignored: %s.", ", ".join(unknown))
    if given.get("mode") == "offline":
        LOG.warning(
            'tocsin: mode="offline" is not needed. While there is no server, records are kept on disk; '
            "`tocsin sync` delivers them later."
        )
