import assert from "node:assert/strict";
import { test } from "node:test";
import { endingOf, normSource } from "../../web/lib/runs/clienttext.js";

const source = (data, kind = "grad-norm-source") => ({
  id: 1,
  kind,
  step: 0,
  time_ms: 0,
  attempt: 1,
  rank: 0,
  data,
});

test("an ending has its type, its message and its last lines", () => {
  assert.deepEqual(endingOf({ type: "OutOfMemoryError", message: "2 GiB", lines: ["a", "b"] }), {
    head: "OutOfMemoryError",
    message: "2 GiB",
    lines: "a\nb",
  });
});

test("malformed endings are null", () => {
  for (const error of [null, undefined, "x", {}, { type: 3, lines: "x" }, { lines: [] }]) {
    assert.equal(endingOf(error), null);
  }
  assert.deepEqual(endingOf({ lines: ["a", 3] }), { head: "", message: "", lines: "a\n" });
});

test("the source of the norm is the last one reported for the primary optimizer", () => {
  const own = source({ source: "own", clip: null, series: "" });
  const clip = source({ source: "clip", clip: 0.5, series: "" });
  assert.equal(normSource([]), "");
  assert.equal(normSource([own, clip]), "from the script's clipping at 0.5");
  assert.equal(
    normSource([clip, own, source({ source: "clip", clip: 1, series: "opt2" }), source({}, "phase")]),
    "sampled by the hook",
  );
  assert.equal(normSource([source({ source: "local" })]), "sampled by the hook, this rank's part");
  assert.equal(normSource([source({ source: 3 })]), "");
  assert.equal(
    normSource([source({ source: "clip", clip: 0.5, taken: "before clipping" })]),
    "from the script's clipping at 0.5, before clipping",
  );
});
