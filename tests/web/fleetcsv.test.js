import assert from "node:assert/strict";
import { test } from "node:test";
import { columnsOf } from "../../web/lib/runs/columns.js";
import { fleetCsv } from "../../web/lib/runs/fleetcsv.js";
import { rowOf } from "./layers.js";

test("the table as CSV has the shown columns with exact values", () => {
  const metrics = { v: { last: "NaN", min: 0.1, max: 1, n: 2, step: 1, nonfinite: 1, means: { 2: 1 / 3 } } };
  const row = rowOf({ id: "r", name: "=a,b", project: "p", last: { loss: 0.1 + 0.2 }, metrics });
  const columns = columnsOf(["loss", "last:v", "mean2:v", "config:lr", "config:tags"]);
  const setting = (id, key) => ({ lr: 1e-4, tags: ["x", "y"] })[key];
  assert.deepEqual(fleetCsv([row], columns, setting).split("\r\n"), [
    "id,project,name,loss,v,v mean 2,config.lr,config.tags",
    `r,p,"'=a,b",0.30000000000000004,NaN,0.3333333333333333,0.0001,"[x, y]"`,
    "",
  ]);
});

test("every column has a field, and a run without values has empty ones", () => {
  const row = rowOf({ last: {}, last_step: null, planned_steps: null, gpu_util: null, state: "running" });
  const ids = [
    "alerts",
    "step",
    "rate",
    "eta",
    "faults",
    "gpu",
    "attempt",
    "state",
    "host",
    "created",
    "seen",
  ];
  const [heads, values] = fleetCsv([row], columnsOf([...ids, "last:x", "config:y"]), () => undefined).split(
    "\r\n",
  );
  assert.equal(heads.split(",").length, values.split(",").length);
  assert.match(heads, /critical,warning,info,step,planned_steps,steps_per_s,seconds_left,nonfinite,skipped/);
  assert.match(values, /,,$/);
});
