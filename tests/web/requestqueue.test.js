import assert from "node:assert/strict";
import { test } from "node:test";
import { Lane } from "../../web/data/requestqueue.js";

/** Work that ends when the test says so. */
function held() {
  let end = () => {};
  const done = new Promise((resolve, reject) => {
    end = (error) => (error ? reject(error) : resolve("done"));
  });
  return { work: () => done, end };
}

const settled = () => new Promise((done) => setImmediate(done));

test("at most its width runs at once, in order", async () => {
  const lane = new Lane(2);
  const begun = [];
  const works = [held(), held(), held()];
  const all = works.map(({ work }, i) =>
    lane.run(() => {
      begun.push(i);
      return work();
    }),
  );
  await settled();
  assert.deepEqual([begun, lane.busy], [[0, 1], true]);
  works[1].end();
  await settled();
  assert.deepEqual(begun, [0, 1, 2]);
  works.forEach(({ end }) => end());
  assert.deepEqual(await Promise.all(all), ["done", "done", "done"]);
  assert.equal(lane.busy, false);
});

test("failed work frees its slot", async () => {
  const lane = new Lane(1);
  const first = held();
  const failed = lane.run(first.work);
  const next = lane.run(async () => 2);
  first.end(new Error("gone"));
  await assert.rejects(failed, /gone/);
  assert.equal(await next, 2);
});
