import assert from "node:assert/strict";
import { test } from "node:test";
import { asksConfig, runFilter } from "../../web/lib/runs/filter.js";
import { rowOf } from "./layers.js";

const row = rowOf({ id: "r", project: "deblur", name: "my run", tags: ["fp16"], last_step: 1200, alerts: 2 });
const config = (id, key) =>
  id === "r" ? { lr: 1e-3, "model.name": "swin-T", resume: false, depth: "12" }[key] : undefined;
const holds = (text) => runFilter(text, config)(row);

test("config values are compared as numbers if both are, else as text", () => {
  for (const yes of [
    "config.lr>1e-4",
    "config.lr=0.001",
    "config.lr<=1e-3",
    "config.model.name:swin",
    "config.depth>9",
    "config.resume=false",
    "config.lr!=2",
  ]) {
    assert.equal(holds(yes), true, yes);
  }
  for (const no of [
    "config.lr>1e-2",
    "config.model.name>3",
    "config.gone:x",
    "config.gone!=x",
    "config.lr>",
  ]) {
    assert.equal(holds(no), false, no);
  }
});

test("numbers of the run can be compared, terms excluded, and quotes keep spaces", () => {
  for (const yes of ["step>1000", "alerts>=1", "-tag:bf16", 'name:"my run"', "-config.lr>1 fp16"]) {
    assert.equal(holds(yes), true, yes);
  }
  for (const no of ["step<1000", "-tag:fp16", 'name:"myrun"', "-deblur"]) assert.equal(holds(no), false, no);
});

test("terms without a known field are free text", () => {
  for (const odd of ["a:b:c", ":", ">", "config.", "config.>", '"', "-", "(", "x=y"]) {
    assert.equal(typeof holds(odd), "boolean", odd);
  }
});

test("configurations are needed only by filters that use them", () => {
  assert.deepEqual(["config.lr>1", "a -config.x:y", "tag:config", ""].map(asksConfig), [
    true,
    true,
    false,
    false,
  ]);
});
