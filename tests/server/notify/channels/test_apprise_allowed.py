"""Only reviewed schemes and parameters of apprise are accepted: none that names a file, a program or a
host."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import apprise
import pytest
from apprise.manager_plugins import NotificationManager

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.apprise_allowed import COMMON, PARAMETERS, PREFIXES, objection
from tocsin_server.notify.channels.apprise import check

LIST = Path(__file__).with_name("apprise_parameters.json")
"""By plugin: what each of its parameters and path parts sets, and which calls on files its source makes."""
ON_FILES = re.compile(
    r"AppriseAttachment|PGPController|isfile|exists\(|expanduser|(?<![.\w])open\(|subprocess|Popen|os\.system"
)
NAMES_FILES = {"template", "pgp", "pgpkey", "store", "attach", "filename", "file_url"}
"""Parameters that name files of this machine or let another one fetch them."""


def plugins() -> dict[str, Any]:
    """Return the installed plugin of every allowed scheme."""
    manager = NotificationManager()
    return {scheme: manager[scheme] for scheme in PARAMETERS}


def described(plugin: Any) -> dict[str, Any]:
    """Return the part of ``apprise_parameters.json`` for a plugin."""
    args = {
        name: reported.get("map_to") or reported.get("alias_of")
        for name, reported in plugin.template_args.items()
    }
    return {
        "args": {name: list(to) if isinstance(to, tuple) else to for name, to in sorted(args.items())},
        "path": sorted(plugin.template_tokens),
        "signs": sorted({reported["prefix"] for reported in plugin.template_kwargs.values()}),
        "files": sorted(set(ON_FILES.findall(inspect.getsource(inspect.getmodule(plugin))))),  # type: ignore[arg-type]
    }


def installed() -> dict[str, Any]:
    return {plugin.__name__: described(plugin) for plugin in plugins().values()}


def test_every_plugin_is_as_it_was_reviewed() -> None:
    """It fails if a new version adds a parameter. Review the parameter, then run this file as a program."""
    assert installed() == json.loads(LIST.read_text()), f"apprise {apprise.__version__} was not reviewed"


def test_no_parameter_names_a_file() -> None:
    """In all schemes. SendGrid's template is an id at SendGrid."""
    named = {scheme: NAMES_FILES & names for scheme, names in PARAMETERS.items()}
    assert {scheme: names for scheme, names in named.items() if names} == {"sendgrid": {"template"}}
    assert not COMMON & NAMES_FILES


def test_every_parameter_of_every_plugin_was_decided_on() -> None:
    """Allowed, or rejected because it names a file. A prefix is allowed only if the plugin takes free names
    after it."""
    for scheme, plugin in plugins().items():
        allowed = PARAMETERS[scheme] | COMMON
        assert set(plugin.template_args) - allowed <= NAMES_FILES, scheme
        signs = {reported["prefix"] for reported in plugin.template_kwargs.values()}
        assert allowed & PREFIXES <= signs, scheme


READING = (
    "workflows://host:443/workflow/signature/?template={file}",
    "workflows://host:443/workflow/signature/?TEMPLATE%20={file}",
    "workflows://host:443/workflow/signature/?image=no&template={file}&:a=b",
    "msteams://8b799edf-6f98-4d3a-9be7-2862fb4e5752/abcdefghij/abcd/ef?%74emplate={file}",
    "mailtos://user:password@example.org?pgp=yes&pgpkey={file}",
    "ntfy://topic?attach=file://{file}&filename=a",
    "synology://example.org/token?file_url=file://{file}",
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?store=yes",
    "json://example.org/?+a=b",
    "syslog://",
)


@pytest.mark.parametrize("url", READING)
def test_no_address_reads_a_file(url: str) -> None:
    """In any notation: the check uses apprise's own parser."""
    parsed = apprise.plugins.url_to_dict(url.format(file="/etc/hostname"))
    wrong = objection(parsed)
    assert wrong is not None
    assert wrong[1] in ("another parameter", "another scheme")


def test_a_response_does_not_reveal_whether_a_file_exists(tmp_path: Path) -> None:
    """Through the real process: the error is the same either way and does not contain the address."""
    (tmp_path / "there.json").write_text("{}")
    reported = []
    for name in ("there.json", "absent.json"):
        with pytest.raises(FieldError, match="workflows:// address with these parameters") as caught:
            check({"url": READING[0].format(file=tmp_path / name)}, private=True)
        reported.append(str(caught.value))
    assert reported[0] == reported[1]


def test_what_people_use_passes() -> None:
    """Common addresses, with parameters and headers."""
    for url in (
        "tgram://123456789:abcdefg_hijklmnop/12315544/?silent=yes",
        "mailtos://user:password@example.org?to=ann@example.org&smtp=mail.example.org&+X-Team=ml",
        "workflows://host:443/workflow/signature/?ver=2016-06-01",
    ):
        parsed = apprise.plugins.url_to_dict(url)
        assert objection(parsed) is None


if __name__ == "__main__":
    rows = [
        f"{json.dumps(name)}: {json.dumps(parameters)}" for name, parameters in sorted(installed().items())
    ]
    LIST.write_text("{\n" + ",\n".join(rows) + "\n}\n")
