"""The dashboard of examples/grafana: each query runs on a real Postgres, as the role that Compose creates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import psycopg
import pytest
import yaml

from tests.import_graph import ROOT
from tests.server.store.whole_run import write_run_to
from tocsin_server.store.database import open_database

FOLDER = ROOT / "examples" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboards" / "tocsin.json").read_text("utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES = {"project:sqlstring": "'deblur','x'", "run:sqlstring": "'r1'"}
"""What Grafana puts in place of its variables."""


def queries() -> dict[str, str]:
    """Return the SQL of every panel, variable and annotation by its title."""
    found = {panel["title"]: panel["targets"][0]["rawSql"] for panel in PANELS if "targets" in panel}
    found |= {one["name"]: one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"}
    return found | {one["name"]: one["target"]["rawSql"] for one in DASHBOARD["annotations"]["list"]}


def expanded(query: str) -> str:
    """Return a query as Grafana sends it."""
    period = r"\1 BETWEEN '1970-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'"
    query = re.sub(r"\$__timeFilter\((\w+)\)", period, query)
    query = re.sub(r"\$\{([\w:]+)\}", lambda found: VARIABLES[found[1]], query)
    assert "$" not in query
    return query


@pytest.fixture(scope="module")
def grafana(own_postgres: Any) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the role, to a database with a run."""
    url = own_postgres.migrated_database()
    database = open_database(url)
    write_run_to(database, "r1")
    database.close()
    owner = url.set(drivername="postgresql").render_as_string(hide_password=False)
    role = (FOLDER / "role.sql").read_text("utf-8")
    with psycopg.connect(owner, autocommit=True, options="-c tocsin.grafana_password=it's") as connection:
        connection.execute(role)
        connection.execute(role)  # Compose repeats it at every start
    try:
        with psycopg.connect(owner, user="grafana", password="it's", autocommit=True) as connection:
            yield connection
    finally:
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute("DROP OWNED BY grafana; DROP ROLE grafana")


@pytest.mark.postgres
def test_each_query_runs_as_the_role_of_grafana(grafana: psycopg.Connection[Any]) -> None:
    found = {title: grafana.execute(expanded(query)).fetchall() for title, query in queries().items()}
    assert len(found) > 15
    empty = {title for title, rows in found.items() if not rows}
    assert empty <= {"Loss", "Gradient norm", "Loss scale", "Learning rate", "Open incidents", "Causes"}


@pytest.mark.postgres
@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM token", "SELECT secret FROM channel", "SELECT * FROM run", "CREATE TABLE a (b int)"],
)
def test_the_role_reads_only_the_views(grafana: psycopg.Connection[Any], query: str) -> None:
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
        grafana.execute(query)


def test_panels_have_a_place_of_their_own() -> None:
    """Unique ids, within 24 columns, and no two overlap."""
    places = [panel["gridPos"] for panel in PANELS]
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above, (a, b)


def test_every_panel_uses_the_provisioned_data_source() -> None:
    text = (FOLDER / "provisioning" / "datasources" / "tocsin.yml").read_text("utf-8")
    (source,) = yaml.safe_load(text)["datasources"]
    used = {"type": source["type"], "uid": source["uid"]}
    found = [panel["datasource"] for panel in PANELS if panel["type"] != "row"]
    found += [target["datasource"] for panel in PANELS for target in panel.get("targets", ())]
    assert all(one == used for one in found)


def test_compose_mounts_what_is_there() -> None:
    """Every file and folder of the profile; what Grafana reads is where its configuration says."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    profile = {name: one for name, one in services.items() if one.get("profiles") == ["grafana"]}
    assert set(profile) == {"grafana", "grafana-role"}
    mounts = [mount.split(":") for one in profile.values() for mount in one["volumes"]]
    assert all((ROOT / mount[0]).exists() for mount in mounts if mount[0].startswith("."))
    text = (FOLDER / "provisioning" / "dashboards" / "tocsin.yml").read_text("utf-8")
    assert yaml.safe_load(text)["providers"][0]["options"]["path"] in {mount[1] for mount in mounts}
