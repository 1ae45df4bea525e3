import assert from "node:assert/strict";
import { test } from "node:test";
import { RunStream, seriesOf } from "../../web/data/runstream.js";
import { jsonLines } from "../../web/lib/ndjson.js";
import { SeriesSet } from "../../web/lib/charts/series.js";
import { packed } from "./layers.js";

/** A server whose lines the test sends. */
function server() {
  const requests = [];
  return {
    requests,
    async *compare(asked, signal) {
      let send = () => {};
      const lines = new Promise((done, fail) => {
        send = done;
        signal.addEventListener("abort", () => fail(new DOMException("left", "AbortError")));
      });
      requests.push({ asked, signal, send });
      yield* await lines;
    },
  };
}
const settle = () => new Promise((done) => setImmediate(done));
const WHOLE = { from: null, to: null, buckets: 100 };
const line = (id, more = {}) => ({
  id,
  cursor: 1,
  first_step: 0,
  last_step: 1,
  grids: [],
  series: {},
  ...more,
});

test("what is wanted of several runs at once is one request", async () => {
  const from = server();
  const known = [];
  const stream = new RunStream(from, (each) => known.push(each.id));
  const answers = ["a", "b"].map((id) => stream.series(id, ["loss"], WHOLE));
  await settle();
  assert.deepEqual(from.requests[0].asked, {
    names: ["loss"],
    buckets: 100,
    details: true,
    runs: [
      { id: "a", from: null, to: null },
      { id: "b", from: null, to: null },
    ],
  });
  from.requests[0].send([line("a", { names: ["loss"] }), line("b", { names: [] })]);
  assert.deepEqual(
    (await Promise.all(answers)).map(({ run }) => run),
    ["a", "b"],
  );
  await settle();
  assert.deepEqual([known, from.requests.length, stream.busy], [["a", "b"], 1, false]);
});

test("a run that fails does not affect the others, and a broken response fails the rest", async () => {
  const from = server();
  const stream = new RunStream(from, () => {});
  const answers = ["a", "b", "c"].map((id) => stream.series(id, [], WHOLE));
  const all = Promise.allSettled(answers);
  await settle();
  from.requests[0].send([line("a", { error: { status: 404, detail: "Run not found: a" } }), line("b")]);
  const [a, b, c] = await all;
  assert.deepEqual([a.reason.status, a.reason.message, b.status], [404, "Run not found: a", "fulfilled"]);
  assert.deepEqual([c.reason.status, c.reason.message], [0, "The server's response is incomplete."]);
});

test("a request ends when nothing of it is wanted any more", async () => {
  const from = server();
  const stream = new RunStream(from, () => {});
  const asking = [new AbortController(), new AbortController()];
  const all = Promise.allSettled(asking.map(({ signal }, i) => stream.series(`${i}`, [], WHOLE, signal)));
  await settle();
  asking[0].abort();
  assert.equal(from.requests[0].signal.aborted, false);
  asking[1].abort();
  assert.equal(from.requests[0].signal.aborted, true);
  assert.deepEqual(
    (await all).map(({ status }) => status),
    ["rejected", "rejected"],
  );
});

test("what is wanted while two requests run is collected for the next one", async () => {
  const from = server();
  const stream = new RunStream(from, () => {});
  for (const name of ["x", "y"]) void stream.series("a", [name], WHOLE);
  await settle();
  for (const id of ["a", "b", "c"]) {
    void stream.series(id, ["z"], WHOLE);
    await settle();
  }
  assert.equal(from.requests.length, 2);
  from.requests[0].send([line("a")]);
  await settle();
  assert.deepEqual(
    from.requests[2].asked.runs.map(({ id }) => id),
    ["a", "b", "c"],
  );
});

test("layers share their positions, and every value is exact", () => {
  const values = [NaN, Infinity, -Infinity, 0.1];
  const grids = [{ attempt: 2, rank: 0, exact: true, x: packed([0, 1, 2, 3]), t: packed([5, 6, 7, 8]) }];
  const series = {
    loss: [{ grid: 0, first: packed(values) }],
    lr: [{ grid: 0, first: packed([1, 2, 3, 4]) }],
  };
  const set = new SeriesSet();
  set.take(seriesOf(line("a", { grids, series })));
  const [loss] = set.get("loss");
  assert.deepEqual([loss.last, loss.x, loss.t], [values, [0, 1, 2, 3], [5, 6, 7, 8]]);
  assert.deepEqual(
    [loss.nan, loss.pinf, loss.ninf, loss.mean],
    [
      [1, 0, 0, 0],
      [0, 1, 0, 0],
      [0, 0, 1, 0],
      [NaN, NaN, NaN, 0.1],
    ],
  );
  assert.deepEqual(set.get("lr")[0].max, [1, 2, 3, 4]);
});

test("lines arrive in any pieces", async () => {
  const bytes = new TextEncoder().encode('{"a":"é"}\n{"b":1}\n\n{"c":2}');
  for (const size of [1, 2, 7, 100]) {
    const body = new ReadableStream({
      start(controller) {
        for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
        controller.close();
      },
    });
    const found = [];
    for await (const value of jsonLines(body)) found.push(value);
    assert.deepEqual(found, [{ a: "é" }, { b: 1 }, { c: 2 }]);
  }
});
