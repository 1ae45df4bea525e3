import assert from "node:assert/strict";
import { test } from "node:test";
import { RunMetrics } from "../../web/data/runmetrics.js";

/** Metrics of two pages of runs; each request is noted. Timers run when the test says so. */
function world() {
  const asked = [];
  const timers = [];
  const seen = new Map();
  const api = {
    runMetrics: async (names, { ids, after }) => {
      asked.push([names.join(), ids?.join() ?? after]);
      const values = Object.fromEntries(names.map((name) => [name, { last: asked.length }]));
      const metrics = new Map((ids ?? [after ? "b" : "a"]).map((id) => [id, values]));
      return { metrics, next: ids || after ? null : "a" };
    },
  };
  const receive = (found) => found.forEach((metrics, id) => seen.set(id, { ...seen.get(id), ...metrics }));
  const clock = { later: (run) => timers.push(run), cancel: () => {} };
  return { asked, timers, seen, metrics: new RunMetrics(api, receive, clock) };
}
const settled = () => new Promise((done) => setImmediate(done));

test("metrics of all runs are loaded once, page by page", async () => {
  const { asked, seen, metrics } = world();
  await metrics.want(["x"]);
  await metrics.want(["x"]);
  assert.deepEqual(asked, [
    ["x", null],
    ["x", "a"],
  ]);
  assert.deepEqual([...seen.keys()], ["a", "b"]);
  await metrics.want(["x", "y"]);
  assert.equal(asked.length, 4);
});

test("runs that changed are loaded together, after a pause", async () => {
  const { asked, timers, metrics } = world();
  metrics.touch(["a"]);
  assert.equal(timers.length, 0);
  await metrics.want(["x"]);
  metrics.touch(["a"]);
  metrics.touch(["b", "a"]);
  assert.equal(timers.length, 1);
  timers[0]();
  await settled();
  assert.deepEqual(asked.at(-1), ["x", "a,b"]);
  assert.equal(timers.length, 1);
});

test("many changed runs take several requests, one at a time", async () => {
  const { asked, timers, metrics } = world();
  await metrics.want(["x"]);
  metrics.touch(Array.from({ length: 150 }, (_, i) => `r${i}`));
  timers[0]();
  await settled();
  timers[1]();
  await settled();
  assert.deepEqual(
    asked.slice(-2).map(([, ids]) => ids.split(",").length),
    [100, 50],
  );
});

test("a mean that was not asked for before is loaded, and runs count as loaded then", async () => {
  const { asked, metrics } = world();
  await metrics.want(["x"]);
  assert.deepEqual([metrics.isLoaded("a"), metrics.isLoaded("c")], [true, false]);
  const loading = metrics.want(["x"], { means: ["10:x"] });
  assert.equal(metrics.isLoaded("a"), false);
  await loading;
  assert.deepEqual([asked.length, metrics.isLoaded("b")], [4, true]);
});

test("what could not be loaded is loaded by the next call", async () => {
  const { metrics } = world();
  const good = metrics.api.runMetrics;
  metrics.api.runMetrics = async () => {
    throw new Error("down");
  };
  await metrics.want(["x"]);
  const asked = [];
  metrics.api.runMetrics = (...given) => {
    asked.push(given);
    return good(...given);
  };
  await metrics.want(["x"]);
  assert.equal(asked.length, 2);
});
