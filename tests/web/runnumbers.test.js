import assert from "node:assert/strict";
import { test } from "node:test";
import { RunNumbers } from "../../web/data/runnumbers.js";

const summary = (last) => ({ last, min: last, max: last, n: 1, nonfinite: 0, step: 1 });

function apiOf(answer) {
  const asked = [];
  const api = {
    runMetrics: async (names, { ids }) => {
      asked.push([names.length, ids.length]);
      return answer(names, ids);
    },
  };
  return { api, asked };
}

const all = (names, ids) => ({
  metrics: new Map(ids.map((id) => [id, Object.fromEntries(names.map((name) => [name, summary(1)]))])),
  next: null,
});

test("runs are asked for by the hundred, once", async () => {
  const { api, asked } = apiOf(all);
  const ids = Array.from({ length: 250 }, (_, i) => `r${i}`);
  const numbers = new RunNumbers(api, { changed: () => {}, failed: assert.fail });
  await numbers.want(["loss"], ids);
  await numbers.want(["loss"], ids);
  assert.deepEqual(asked, [
    [1, 100],
    [1, 100],
    [1, 50],
  ]);
  assert.equal(numbers.of("r249").loss.last, 1);
});

test("a failed request is reported, and the next call asks again", async () => {
  let down = true;
  const { api, asked } = apiOf((names, ids) => {
    if (down) throw new Error("no connection");
    return all(names, ids);
  });
  const failures = [];
  const numbers = new RunNumbers(api, { changed: () => {}, failed: (error) => failures.push(error.message) });
  await numbers.want(["loss"], ["r1"]);
  down = false;
  await numbers.want(["loss"], ["r1"]);
  assert.deepEqual([failures, asked.length, numbers.of("r1").loss.n], [["no connection"], 2, 1]);
});
