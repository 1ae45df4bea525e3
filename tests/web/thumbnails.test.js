import assert from "node:assert/strict";
import { test } from "node:test";
import { Thumbnails } from "../../web/data/thumbnails.js";

const spark = (value) => ({ buckets: [null, [value, value, value, 0, 0, 0]] });
const row = (id, sparks) => ({ id, sparks });

function server(rows) {
  const asked = [];
  const rowsOf = async (ids) => {
    asked.push(ids);
    return { items: rows().filter(({ id }) => ids.includes(id)) };
  };
  return { asked, rowsOf };
}

test("each run is asked for once, all runs of a list in one request", async () => {
  const api = server(() => [row("a", {}), row("b", {})]);
  const thumbs = new Thumbnails(api, () => {});
  await thumbs.want(["a", "b", "a"]);
  await thumbs.want(["b"]);
  assert.deepEqual(api.asked, [["a", "b"]]);
});

test("the thumbnail is the curve of the signal, else of the loss", async () => {
  const sparks = { loss: spark(1), scale: spark(2), lr: { buckets: [null, null] } };
  const thumbs = new Thumbnails(
    server(() => [row("a", sparks)]),
    () => {},
  );
  await thumbs.want(["a"]);
  assert.equal(thumbs.of("a", "scale"), sparks.scale);
  assert.equal(thumbs.of("a", "val/loss"), sparks.loss);
  assert.equal(thumbs.of("a", "lr"), sparks.loss);
  assert.equal(thumbs.of("b", "loss"), null);
});

test("a request that fails is made again with the next list", async () => {
  let down = true;
  const rowsOf = async (ids) => {
    if (down) throw new Error("down");
    return { items: ids.map((id) => row(id, { loss: spark(1) })) };
  };
  const thumbs = new Thumbnails({ rowsOf }, () => {});
  await thumbs.want(["a"]);
  down = false;
  await thumbs.want(["a"]);
  assert.ok(thumbs.of("a", "loss"));
});

test("a hundred runs are kept at most, and those of the newest list", async () => {
  const api = server(() => ["r499", "r0"].map((id) => row(id, { loss: spark(1) })));
  const thumbs = new Thumbnails(api, () => {});
  await thumbs.want(Array.from({ length: 500 }, (_, i) => `r${i}`));
  assert.equal(api.asked[0].length, 100);
  await thumbs.want(["r499"]);
  assert.deepEqual(api.asked[1], ["r499"]);
  assert.equal(thumbs.of("r0", "loss"), null);
});

test("only runs that go on are loaded again", async () => {
  const api = server(() => [
    { ...row("a", { loss: spark(1) }), state: "finished" },
    { ...row("b", { loss: spark(1) }), state: "stalled" },
  ]);
  const thumbs = new Thumbnails(api, () => {});
  await thumbs.want(["a", "b"]);
  await thumbs.refresh();
  assert.deepEqual(api.asked, [["a", "b"], ["b"]]);
});
