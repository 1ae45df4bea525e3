"""Settings from defaults, file, environment and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tocsin_server.core.errors import SettingError
from tocsin_server.core.settings import load


def test_each_source_overrides_the_one_before(tmp_path: Path) -> None:
    """Flags override the environment, which overrides the file, which overrides the defaults."""
    file = tmp_path / "tocsin.toml"
    file.write_text('port = 1\nhost = "::1"\nlimit_series = 7\n')
    settings = load(
        {"port": 3, "host": None}, config=file, environ={"TOCSIN_PORT": "2", "TOCSIN_HOST": "localhost"}
    )
    assert (settings.port, settings.host, settings.limit_series) == (3, "localhost", 7)


def test_the_database_lies_in_the_data_directory(tmp_path: Path) -> None:
    """Without a URL the database is SQLite in the data directory."""
    settings = load({"data_dir": tmp_path}, environ={})
    assert settings.url == f"sqlite:///{tmp_path}/tocsin.db"


def test_the_hooks_variables_are_not_settings(tmp_path: Path) -> None:
    """TOCSIN_URL and TOCSIN_TOKEN are the hook's and may be in the same environment."""
    hooks = {"TOCSIN_URL": "http://x", "TOCSIN_TOKEN": "t"}
    assert load({"data_dir": tmp_path}, environ=hooks) == load({"data_dir": tmp_path}, environ={})


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"TOCSIN_PORT": "http"}, "setting port (from TOCSIN_PORT): expected a whole number, got 'http'"),
        ({"TOCSIN_PORT": "70000"}, "setting port: expected a port from 0 to 65535, got 70000"),
        ({"TOCSIN_ALLOW_ADMIN_LINK": "maybe"}, "expected true or false, got 'maybe'"),
        ({"TOCSIN_SHUTDOWN_S": "soon"}, "expected a number, got 'soon'"),
        ({"TOCSIN_LIMIT_SERIES": "0"}, "setting limit_series: expected more than 0, got 0"),
    ],
)
def test_a_bad_value_is_named(environ: dict[str, str], complaint: str) -> None:
    """The message has the setting, its source, the expected and the actual value."""
    with pytest.raises(SettingError) as caught:
        load(environ=environ)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("text", ["prot = 8321\n", "port = true\n", "port = [", "host = 3\n"])
def test_a_bad_file_is_rejected(tmp_path: Path, text: str) -> None:
    """An unknown key, a wrong type or invalid TOML prevents the start, with the file's name."""
    file = tmp_path / "tocsin.toml"
    file.write_text(text)
    with pytest.raises(SettingError, match=r"tocsin\.toml"):
        load(config=file, environ={})


def test_each_project_may_have_its_own_retention(tmp_path: Path) -> None:
    """From a table of the file or from the environment; other projects use the general value."""
    file = tmp_path / "tocsin.toml"
    file.write_text("retention_days = 9\n[retention_projects]\ndeblur = 30\nkept = 0\n")
    reported = load({}, config=file, environ={})
    environ = {"TOCSIN_RETENTION_DAYS": "9", "TOCSIN_RETENTION_PROJECTS": "deblur=30,kept=0"}
    for settings in (reported, load({}, environ=environ)):
        assert [settings.retention_of(name) for name in ("deblur", "kept", "x")] == [30.0, 0.0, 9.0]


@pytest.mark.parametrize("text", ["deblur", "deblur=x", "=3", "deblur=-1", "deblur=nan"])
def test_a_bad_retention_is_named(text: str) -> None:
    """The error names the variable or setting that the value came from."""
    with pytest.raises(SettingError, match=r"retention_projects"):
        load({}, environ={"TOCSIN_RETENTION_PROJECTS": text})


def test_a_missing_file_that_was_named_is_rejected(tmp_path: Path) -> None:
    """--config FILE must exist."""
    with pytest.raises(SettingError, match="config"):
        load(config=tmp_path / "absent.toml", environ={})


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("", False)]
)
def test_loopback_is_known(host: str, loopback: bool) -> None:
    """Only addresses that this machine alone can reach are loopback."""
    flags: dict[str, Any] = {"host": host}
    assert load(flags, environ={}).loopback is loopback


def test_a_deeply_nested_config_file_is_rejected(tmp_path: Path) -> None:
    """The TOML parser accepts 20,000 levels, but ``repr`` fails for them."""
    file = tmp_path / "tocsin.toml"
    file.write_text(f"[{'.'.join(['a'] * 20_000)}]\n")
    with pytest.raises(SettingError, match="setting a"):
        load({}, environ={}, config=file)
