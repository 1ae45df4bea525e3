"""The filter language is that of the page: every case is evaluated by web/lib/runs/filter.js too."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.import_graph import ROOT
from tocsin.read.answers import Reason, Run
from tocsin.read.filters import needs_settings, run_filter

CONFIG: dict[str, Any] = {
    "lr": 1e-3, "model": {"name": "swin-T", "layers": [1, 2]}, "resume": False, "depth": "12", "big": 3.0,
    "none": None, "bad": "NaN", "Mixed": "Yes",
}  # fmt: skip
RUN = Run(
    "r_1", "deblur", "my run", "running", "critical", 0.0, 0.0, tags=["fp16"], host="node-07", last_step=1200,
    alerts=2, gpu_util=float("nan"), reason=Reason("loss-spike", "warning", "", None, "a"),
)  # fmt: skip
CASES = (
    "", "deblur", "-deblur", "my", 'name:"my run"', 'name:"myrun"', "tag:FP16", "-tag:bf16", "host:07",
    "state:run", "health:critical", "rule:spike", "id:r_1", "project:xx", "step>1000", "step<1000",
    "step>=1200", "step!=1200", "step:12", "step=1200.0", "alerts>=1", "attempt>1", "gpu<50", "gpu!=50",
    "gpu:nan", "skipped=0",
    "config.lr>1e-4", "config.lr=0.001", "config.lr<=1e-3", "config.model.name:swin", "config.depth>9",
    "config.resume=false", "config.resume=0", "config.lr!=2", "config.lr>1e-2", "config.model.name>3",
    "config.gone:x", "config.gone!=x", "config.lr>", "config.big=3", "config.big:3", "config.none=null",
    "config.bad=nan", "config.model.layers:1,2", "CONFIG.Mixed=yes", "-config.lr>1 fp16", "a:b:c", ":", ">",
    "config.", "config.>", '"', "-", "(", "x=y", "config.lr>-Infinity",
)  # fmt: skip
SCRIPT = """
import { runFilter } from "%s/web/lib/runs/filter.js";
import { Configs } from "%s/web/data/configs.js";
const { cases, row, config } = JSON.parse(process.argv[1]);
const configs = new Configs({ configs: async () => ({ items: [{ id: row.id, config }] }) });
await configs.load();
const of = (id, key) => configs.get(id, key.toLowerCase());
console.log(JSON.stringify(cases.map((text) => runFilter(text, of)(row))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_each_case_matches_as_on_the_page() -> None:
    row = {name: getattr(RUN, name) for name in RUN.__struct_fields__ if name != "reason"}
    row |= {"gpu_util": "NaN", "reason": {"rule": "loss-spike"}}
    given = json.dumps({"cases": CASES, "row": row, "config": CONFIG})
    script = SCRIPT % (ROOT.as_uri(), ROOT.as_uri())
    line = ["node", "--input-type=module", "--eval", script, given]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    expected = dict(zip(CASES, json.loads(done.stdout), strict=True))
    assert {text: run_filter(text, {"r_1": CONFIG})(RUN) for text in CASES} == expected


def test_configurations_are_needed_only_by_filters_that_use_them() -> None:
    assert [needs_settings(text) for text in ("config.lr>1", "a -config.x:y", "tag:config", "")] == [
        True, True, False, False,
    ]  # fmt: skip
