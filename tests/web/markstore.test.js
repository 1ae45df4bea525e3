import assert from "node:assert/strict";
import { test } from "node:test";
import { MarkStore } from "../../web/data/markstore.js";

const ack = (id, by = "x") => ({ id, ack: { by, at_ms: 1, note: "" }, silenced_by: [], inhibited_by: [] });

function bookOf() {
  const waiting = [];
  const timers = [];
  const book = new MarkStore({ marks: () => new Promise((answer) => waiting.push(answer)) }, (run) =>
    timers.push(run),
  );
  return { book, waiting, timers };
}

test("an alert has no marks by default, and removed marks are dropped", async () => {
  const { book, waiting } = bookOf();
  for (const items of [[ack("a")], []]) {
    const done = book.load();
    waiting.shift()({ items, silences: [] });
    await done;
    assert.equal(book.of("a").ack?.by, items.length ? "x" : undefined);
  }
});

test("a response that is older than an action or a later request is ignored", async () => {
  const { book, waiting } = bookOf();
  const early = book.load();
  book.take(ack("a", "me"));
  waiting.shift()({ items: [], silences: [] });
  await early;
  assert.equal(book.of("a").ack?.by, "me");
});

test("many changes cause one request, and none while the page is hidden", () => {
  const { book, timers } = bookOf();
  book.stir();
  assert.equal(timers.length, 0);
  const stop = book.onChange(() => {});
  book.stir();
  book.stir();
  assert.equal(timers.length, 1);
  stop();
});
