import assert from "node:assert/strict";
import { test } from "node:test";
import { headOf, joinedLines, lineAt } from "../../web/lib/runs/consolelines.js";

let serial = 0;
/** @param {Partial<ConsoleLine>} given */
const line = (given = {}) => ({
  id: String(serial++),
  time_ms: 0,
  step: /** @type {number | null} */ (null),
  stream: /** @type {"out" | "err"} */ ("out"),
  text: "",
  open: false,
  attempt: 1,
  rank: 0,
  dropped: 0,
  ...given,
});

test("a progress bar is replaced by the next line of its stream only", () => {
  const bar = line({ text: "50 %", open: true, stream: "err" });
  const before = [line({ text: "begin" }), bar];
  assert.deepEqual(
    joinedLines(before, [line({ text: "other" })]).map((one) => one.text),
    ["begin", "50 %", "other"],
  );
  const done = line({ text: "100 %", stream: "err" });
  assert.deepEqual(
    joinedLines(before, [done]).map((one) => one.text),
    ["begin", "100 %"],
  );
});

test("the line of a step is the newest at or before it, of the newest attempt", () => {
  const lines = [
    line({ step: 9 }),
    line({ step: 2, attempt: 2 }),
    line({ attempt: 2 }),
    line({ step: 5, attempt: 2 }),
  ];
  assert.deepEqual(
    [1, 2, 4, 5, 99].map((step) => lineAt(lines, step)),
    [-1, 1, 1, 3, 3],
  );
  assert.equal(lineAt([], 3), -1);
});

test("a new attempt and lines that were left out are announced", () => {
  const lines = [line({ dropped: 3 }), line({ attempt: 2 })];
  assert.deepEqual(headOf(lines[0], undefined), { dropped: 3, attempt: null });
  assert.deepEqual(headOf(lines[1], lines[0]), { dropped: 0, attempt: 2 });
});
