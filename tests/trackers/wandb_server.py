"""A small server that answers what the package wandb asks: runs, and their history in pages or as Parquet."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

ENTITY, PROJECT = "ml-team", "speech"
KEY = "0123456789abcdef" * 2 + "01234567"
RUNS = Path(__file__).with_name("wandb_runs.json")
NONFINITE = ("NaN", "Infinity", "-Infinity")
LISTED = ("config", "summaryMetrics", "rows")
"""Fields of a run that a list does not have."""
NULLED = ("sweepName", "commit", "description", "systemMetrics", "heartbeatAt")


class WandbServer:
    """Runs of one project. Its fields may be changed while it serves."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {run["name"]: run for run in json.loads(RUNS.read_text())}
        self.exported: dict[str, int] = {}
        """Number of rows of a run that are in a Parquet file, as of runs that ended."""
        self.runs_per_page = 2
        self.asked: list[str] = []
        """Names of the queries."""
        self.before: Callable[[str, dict[str, Any]], int] = lambda operation, variables: 200
        """Called before each answer; returns its status."""
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator[WandbServer]:
        """Serve on loopback."""
        handler = type("Handler", (_Handler,), {"wandb": self})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def answer(self, operation: str, variables: dict[str, Any]) -> Any:
        """Return the data of one query."""
        if operation in ("Viewer", "GetDefaultEntity"):
            teams = {"edges": [{"node": {"name": ENTITY}}]}
            return {"viewer": {"id": "1", "entity": "ada", "username": "ada", "flags": "{}", "teams": teams}}
        if (variables["entity"], variables["project"]) != (ENTITY, PROJECT):
            return {"project": None}
        if operation == "Runs":
            return {"project": self._page(variables)}
        run = self.runs.get(variables.get("name") or variables.get("run") or variables.get("runName", ""))
        return {"project": {"run": run and self._of(run, operation, variables)}}

    def _page(self, variables: dict[str, Any]) -> dict[str, Any]:
        names = list(self.runs)
        first = names.index(variables["cursor"]) + 1 if variables["cursor"] else 0
        page = names[first : first + self.runs_per_page]
        edges = [
            {"node": {**_node(self.runs[name]), **dict.fromkeys(NULLED)}, "cursor": name} for name in page
        ]
        more = first + len(page) < len(names)
        found = {"edges": edges, "pageInfo": {"endCursor": page[-1], "hasNextPage": more}}
        return {"internalId": "7", "runCount": len(names), "readOnly": False, "runs": found}

    def _of(self, run: dict[str, Any], operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        rows, exported = run["rows"], self.exported.get(run["name"], 0)
        if operation == "RunParquetHistory":
            urls = [f"{self.url}/parquet/{run['name']}"] if exported else []
            return {"parquetHistory": {"parquetUrls": urls, "liveData": rows[exported:]}}
        if operation == "HistoryPage":
            wanted = range(variables["minStep"], variables["maxStep"])
            return {"history": [json.dumps(row) for row in rows[exported:] if row["_step"] in wanted]}
        last = rows[-1]["_step"] if rows else -1
        texts = {name: json.dumps(run[name]) for name in ("config", "summaryMetrics")}
        return {**_node(run), **dict.fromkeys(NULLED), **texts, "historyKeys": {"lastStep": last, "keys": {}}}

    def parquet(self, name: str) -> bytes:
        """Return the exported rows of a run as a file."""
        rows = [_flat(row) for row in self.runs[name]["rows"][: self.exported[name]]]
        columns = {
            each: [row.get(each) for row in rows] for each in dict.fromkeys(k for r in rows for k in r)
        }
        file = io.BytesIO()
        parquet.write_table(pa.table(columns), file)
        return file.getvalue()


def _node(run: dict[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in run.items() if name not in LISTED}
    return {**own, "projectId": "7", "readOnly": False, "historyLineCount": len(run["rows"])}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without media; NaN and infinities as such, and nested values as ``val.x``."""
    found = {f"val.{name}": value for name, value in row.get("val", {}).items()}
    for name, value in row.items():
        if not isinstance(value, dict):
            found[name] = float(value) if value in NONFINITE else value
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wandb: WandbServer

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        """Answer a query; accept anything else."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/graphql":
            return self._send(200, b"{}")
        query = json.loads(body)
        operation = query["query"].split("query ", 1)[1].split("(")[0].split("{")[0].strip()
        self.wandb.asked.append(operation)
        status = self.wandb.before(operation, query.get("variables") or {})
        if status != 200:
            return self._send(status, json.dumps({"errors": [{"message": "not now"}]}).encode())
        data = self.wandb.answer(operation, query.get("variables") or {})
        return self._send(200, json.dumps({"data": data}).encode())

    def do_GET(self) -> None:
        """Send a Parquet file."""
        self._send(200, self.wandb.parquet(self.path.rpartition("/")[2]))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
