import assert from "node:assert/strict";
import { test } from "node:test";
import { safeAddress } from "../../web/browser/dom.js";
import { asText, evidenceText } from "../../web/lib/alerts/evidence.js";
import { thin } from "../../web/lib/charts/buckets.js";
import { heldReadout, meanReadout, readoutAt, scaleReadout } from "../../web/lib/charts/readout.js";
import { flatten, shortened } from "../../web/lib/flatten.js";
import { isCommand, pieces } from "../../web/lib/highlight.js";
import { match, runAddress } from "../../web/lib/route.js";
import { runFilter } from "../../web/lib/runs/filter.js";
import { alertOf, layerOf, rowOf } from "./layers.js";

test("addresses that run code are not followed", () => {
  for (const bad of [
    "javascript:alert(1)",
    " JavaScript:alert(1)",
    "\tjavascript:x",
    "data:text/html,x",
    "vbscript:x",
  ]) {
    assert.equal(safeAddress(bad), false, bad);
  }
  for (const good of ["/runs/x", "https://example.org", "?at=1", "#dx", "runs/a:b"]) {
    assert.equal(safeAddress(good), true, good);
  }
});

test("each address has its page, and a run's id survives it", () => {
  assert.deepEqual(
    ["/", "/alerts", "/alerts/", "/runs/r_1", "/runs/", "/x"].map((path) => match(path).page),
    ["fleet", "alerts", "alerts", "run", "missing", "missing"],
  );
  assert.equal(match(new URL(runAddress("a/b c?", { at: 5 }), "http://x").pathname).id, "a/b c?");
  assert.equal(runAddress("r", { at: 0, alert: "a&b" }), "/runs/r?at=0&alert=a%26b");
  assert.equal(match("/runs/%E0%A4%A").page, "run");
});

test("the filter combines free text and fields", () => {
  const row = rowOf({
    project: "deblur",
    name: "mdt-FP16",
    tags: ["fp16", "base"],
    state: "stalled",
    reason: { rule: "loss-spike" },
  });
  for (const yes of ["", "mdt", "FP16", "project:deb", "tag:base state:stalled", "rule:spike"]) {
    assert.equal(runFilter(yes)(row), true, yes);
  }
  for (const no of ["other", "state:running", "mdt tag:none", "project:mdt"]) {
    assert.equal(runFilter(no)(row), false, no);
  }
});

test("nested settings are flattened without rounding", () => {
  assert.deepEqual(
    flatten({
      lr: 0.00012345678,
      amp: { dtype: "fp16" },
      betas: [0.9, 0.999],
      layers: [{ n: 1 }],
      seed: null,
    }),
    [
      ["lr", "0.00012345678"],
      ["amp.dtype", "fp16"],
      ["betas", "[0.9, 0.999]"],
      ["layers.0.n", "1"],
      ["seed", "–"],
    ],
  );
});

test("numbers of many digits are shortened, unless two would look the same", () => {
  assert.deepEqual(shortened(["0.00002656251363165846", "0.001", "8.673617379884035e-19", undefined]), [
    "2.656e-5",
    "0.001",
    "8.674e-19",
    undefined,
  ]);
  const close = ["0.00012345678", "0.00012345679"];
  assert.deepEqual(shortened(close), close);
  assert.deepEqual(shortened(["a name of many letters"]), ["a name of many letters"]);
});

test("highlighted pieces join to the code", () => {
  const code = '# why\nfor g in opt.param_groups:\n    g[\'lr\'] = 1e-4  # "now"\nx = "a # b"';
  assert.equal(
    pieces(code)
      .map(({ text }) => text)
      .join(""),
    code,
  );
  assert.deepEqual(
    pieces(code)
      .filter(({ kind }) => kind === "c")
      .map(({ text }) => text),
    ["# why", '# "now"'],
  );
});

test("a command has strings and comments, but no keywords of Python", () => {
  const kinds = (shell) => pieces('tocsin import runs/ --name "x" # for all', shell).map(({ kind }) => kind);
  assert.deepEqual(kinds(true), ["", "s", "", "c"]);
  assert.deepEqual(kinds(false), ["", "k", "", "s", "", "c"]);
});

test("evidence is formatted by unit, scales as powers, non-finite values as words", () => {
  const item = (name, value, unit = "") => evidenceText({ name, value, unit, step: null });
  assert.deepEqual(
    [
      item("scale before", 65536),
      item("grad norm", "Infinity"),
      item("skipped", 34.2, "%"),
      item("since", 90, "s"),
      item("at", 1790, "step"),
      item("why", "2^3 seen"),
      item("scale", 2 ** -144),
    ],
    ["2¹⁶ 65\u202f536", "+Inf", "34.2 %", "2 min", "step 1\u202f790", "2³ seen", "2⁻¹⁴⁴ 4.484e-44"],
  );
});

test("a diagnosis as text has the first action after the cause, then the details and the address", () => {
  const text = asText(
    alertOf({
      diagnosis: {
        cause: "LR too high",
        evidence: [{ name: "lr", value: 0.1, unit: "", step: 4 }],
        alternatives: ["One batch."],
        remedies: [
          { text: "Lower it", code: "lr = 1e-3" },
          { text: "Clip", code: "" },
        ],
        how_to_confirm: "Rerun",
        timeline: [[3, "LR rises", "lr-jump"]],
      },
    }),
    "http://x/runs/r",
  );
  const parts = [
    "Likely cause: LR too high",
    "First action: Lower it",
    "lr = 1e-3",
    "- lr: 0.1 (step 4)",
    "- step 3: LR rises",
    "Other explanations:\n- One batch.",
    "How to confirm: Rerun",
    "1. Clip",
    "http://x/runs/r",
  ].map((part) => text.indexOf(part));
  assert.ok(!parts.includes(-1));
  assert.deepEqual(
    parts,
    [...parts].sort((a, b) => a - b),
  );
});

test("a readout is exact for a record, mean and range for a bucket, and names non-finite values", () => {
  const layer = layerOf([
    [0, 1],
    [1, 3],
    [2, NaN],
    [3, 512],
  ]);
  assert.equal(meanReadout(layer, 1).value, "3");
  assert.equal(meanReadout(layer, 2).value, "NaN");
  const bucket = thin(
    layerOf([
      [0, 1],
      [1, 3],
      [2, NaN],
    ]),
    0,
    3,
    1,
  );
  assert.deepEqual(meanReadout(bucket, 0), { value: "2", soft: "1 … 3", bad: "NaN", step: 0 });
  assert.equal(readoutAt({ read: meanReadout }, { layer: bucket, i: 0 }, 2).value, "2");
  assert.equal(readoutAt({ read: meanReadout }, { layer: bucket, i: 0 }, null).value, "NaN");
  assert.deepEqual(
    [scaleReadout(layer, 3).value, scaleReadout(layer, 3).soft, heldReadout(layer, 2).value],
    ["2⁹", "512", "NaN"],
  );
});

test("a shell command is distinguished from Python", () => {
  const commands = [
    "py-spy dump --pid PID",
    "TOCSIN_RUN_ID=<run id> python train.py --resume",
    'dmesg --ctime | grep -iE "killed process|out of memory"',
    "torchrun --nproc-per-node=4 train.py",
    "unset TOCSIN_RUN_ID",
  ];
  assert.deepEqual(
    commands.filter((command) => !isCommand(command)),
    [],
  );
  assert.ok(!isCommand("python = torch.load(path)\nscaler.update()"));
});
