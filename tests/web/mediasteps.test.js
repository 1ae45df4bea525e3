import assert from "node:assert/strict";
import { test } from "node:test";
import { mediaNames, mediaSteps } from "../../web/lib/runs/mediasteps.js";

const items = (...pairs) => pairs.map(([name, step]) => ({ name, step }));

test("names that more runs have come first, and each once", () => {
  const runs = [items(["b", 1], ["b", 2], ["a", 1]), items(["b", 3], ["c", 1])];
  assert.deepEqual(mediaNames(runs), ["b", "a", "c"]);
});

test("steps are those of any run", () => {
  assert.deepEqual(
    mediaSteps([items(["a", 8], ["a", 3]), items(["a", 5], ["a", 3], ["a", null])]),
    [0, 3, 5, 8],
  );
});
