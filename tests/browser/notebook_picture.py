"""Take the picture of a notebook for docs/img: a real kernel trains; its cells are drawn as in Jupyter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import Browser
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

CELLS = (
    'import math, time, torch, tocsin\n\nrun = tocsin.watch("deblur", planned_steps=400)',
    """net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for step in range(300):
    loss = net(torch.randn(16, 8)).square().mean()
    if step > 260:
        loss = loss * math.nan
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 19:
        run.evaluate(accuracy=1 - 1 / (step / 40 + 1))
    time.sleep(0.02)
time.sleep(3)  # until the alerts have arrived""",
)
FORMATTER = HtmlFormatter(style="default")
STYLE = f"""{FORMATTER.get_style_defs()}
body {{ margin: 12px; font: 13px system-ui, sans-serif; }}
.cell {{ display: grid; grid-template-columns: 35px 1fr; gap: 5px 0; margin-bottom: 18px; }}
.number {{ padding-top: 8px; color: #999; font-family: monospace; }}
pre {{ margin: 0; padding: 6px; background: #f5f5f5; border: 1px solid #ccc; line-height: 1.4; }}
.output {{ grid-column: 2; max-width: 880px; }}"""


def take(browser: Browser, login: str, folder: Path) -> None:
    """Execute the notebook against a server and take its picture.

    Args:
        browser: Draws the picture.
        login: Login link of the server.
        folder: Folder of the picture.
    """
    address = urlsplit(login)
    base, token = f"{address.scheme}://{address.netloc}", parse_qs(address.query)["token"][0]
    environ = {"TOCSIN_URL": base, "TOCSIN_TOKEN": token, "JPY_SESSION_NAME": "train.ipynb"}
    with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one
        notebook = thread.submit(_executed, environ).result()
    page = browser.new_page(viewport={"width": 960, "height": 610})
    cells = "".join(map(_drawn, notebook.cells))
    page.set_content(f"<!doctype html><style>{STYLE}</style>{cells}")
    page.screenshot(path=folder / "notebook.png")
    page.close()


def _executed(environ: Mapping[str, str]) -> Any:
    """Return the notebook, executed in a kernel with further variables."""
    new: Any = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, timeout=120).execute(env={**os.environ, **environ})
    return notebook


def _drawn(cell: Any) -> str:
    """Return a cell and its outputs as HTML."""
    outputs = [output["data"].get("text/html", "") for output in cell.outputs if "data" in output]
    code = highlight(cell.source, PythonLexer(), FORMATTER)
    number = escape(f"[{cell.execution_count}]:")
    drawn = "".join(f'<div class="output">{output}</div>' for output in outputs)
    return f'<div class="cell"><div class="number">{number}</div><div>{code}</div>{drawn}</div>'
