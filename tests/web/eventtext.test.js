import assert from "node:assert/strict";
import { test } from "node:test";
import { eventText } from "../../web/lib/runs/eventtext.js";

const told = (kind, data) => eventText({ kind, data });

test("hook events are described as sentences", () => {
  assert.equal(
    told("scaler", { scaler: "scaler1", change: "backoff", from: 65536, to: 32768 }),
    "backoff 65\u202f536 → 32\u202f768 · scaler1",
  );
  assert.equal(
    told("attached", {
      optimizers: [{ class: "AdamW", name: "opt1", parameters: 3, defaults: { lr: 0.001 } }],
      scalers: [],
      torch: "2.13.0",
      signals: { clip: "ok", loss: "missing: x" },
    }),
    "AdamW with 3 parameters, lr 0.001 · torch 2.13.0 · loss missing: x",
  );
  assert.equal(
    told("preflight", {
      checks: ["a", "b"],
      findings: [{ severity: "critical", check: "eps", subject: "opt1" }],
      took_ms: 1.5,
    }),
    "1 finding in 2 checks, took 1.50 ms · critical eps: opt1",
  );
  assert.equal(
    told("grad-norm-source", { source: "clip", clip: 1, series: "", optimizer: "opt1" }),
    "the script's clipping at 1",
  );
  assert.equal(
    told("grad-norm-source", { source: "own", clip: null, series: "", taken: "after clipping" }),
    "sampled by the hook · after clipping, so gradient rules cannot fire",
  );
  assert.equal(
    told("accumulation", { series: "", count: 4, loss: "sum", why: "divided" }),
    "loss is the sum of 4 losses per step · each was divided by the number of losses",
  );
  assert.equal(
    told("environment", {
      git: { commit: "0123456789abcdef", dirty: true, diff: "+x" },
      command: ["train.py", "--lr", "1"],
      packages: { torch: "2.6", numpy: "2.0" },
    }),
    "commit 0123456789ab, uncommitted changes · train.py --lr 1 · 2 packages",
  );
  assert.equal(told("environment", { data: { train: "c4" }, gpus: [{ name: "H100" }] }), "H100 · train c4");
  assert.equal(told("phase", { name: "eval", state: "begin" }), "eval · begins");
  assert.equal(told("gpu-throttle", { gpu: 0, reasons: [] }), "GPU 0: no longer throttled");
  assert.equal(
    told("dropped", { records: 1200, events: 0, first_step: 7, last_step: 1206, reason: "the disk is full" }),
    "1\u202f200 records · steps 7 to 1\u202f206 · the disk is full",
  );
});

test("unknown events are described field by field", () => {
  assert.equal(told("saved", { path: "a", size: { mb: 3 } }), "path a · size.mb 3");
  assert.equal(told("constructor", {}), "–");
  assert.equal(told("anything", { "<b>": "<i>" }), "<b> <i>");
});

test("extra fields of known events are described too", () => {
  assert.equal(told("checkpoint", { path: "a.pt", epoch: 3, best: true }), "a.pt · epoch 3 · best true");
  assert.equal(told("checkpoint", { path: 7 }), "path 7");
  const saved = {
    path: "/a.pt",
    size: 2_500_000,
    complete: true,
    by: "torch.save",
    holds: ["model"],
    took_s: 1,
  };
  assert.equal(told("checkpoint", saved), "/a.pt · 2.50 MB");
  assert.equal(told("checkpoint", { ...saved, complete: false, size: null }), "/a.pt · incomplete");
  assert.equal(told("checkpoint-removed", { path: "/a.pt" }), "/a.pt was deleted");
  assert.equal(told("checkpoint-moved", { from: "/a.tmp", path: "/a.pt" }), "/a.tmp → /a.pt");
  assert.equal(told("phase", { name: "eval", state: "end", psnr: 31.5 }), "eval · ends · psnr 31.5");
});

test("malformed events are described without an exception", () => {
  for (const kind of [
    "accumulation",
    "attached",
    "preflight",
    "scaler",
    "grad-norm-source",
    "start-step",
    "schedule",
    "phase",
    "checkpoint",
    "nonfinite-input",
    "gpu-throttle",
    "dropped",
    "environment",
  ]) {
    for (const data of [
      {},
      { optimizers: 3, findings: "x", inputs: [null], reasons: 7 },
      { git: 3, command: {}, packages: "x", versions: 7, data: [1], gpus: "y" },
      { optimizers: [{}], signals: null, findings: [{}], clip: "x" },
    ]) {
      assert.equal(typeof told(kind, data), "string");
    }
  }
});
