import assert from "node:assert/strict";
import { test } from "node:test";
import { Feed } from "../../web/data/feed.js";
import { answer, wireLayer } from "./layers.js";

/** Responses in the order that the test gives, and subscriptions that the test can drive. */
function source() {
  const asked = [];
  const waiting = [];
  const subscriptions = [];
  return {
    asked,
    subscriptions,
    series: (id, names, window) => {
      asked.push({ names, window });
      return new Promise((done, fail) => waiting.push({ done, fail }));
    },
    subscribe: (view, handlers) => {
      const one = { view, handlers, ended: false };
      subscriptions.push(one);
      return () => {
        one.ended = true;
      };
    },
    reply: async (i, value) => {
      waiting[i].done(value);
      await settle();
    },
    refuse: async (i, error) => {
      waiting[i].fail(error);
      await settle();
    },
  };
}
const settle = () => new Promise((done) => setImmediate(done));

function feedOf(from) {
  const heard = [];
  const failures = [];
  const feed = new Feed(from, from, "r", {
    changed: (delta) => heard.push(delta),
    failed: (error) => failures.push(error.message),
  });
  return { feed, heard, failures };
}

test("it requests once, then the socket continues from the response's cursor", async () => {
  const from = source();
  const { feed, heard } = feedOf(from);
  void feed.load(["loss"], { from: null, to: null });
  await from.reply(0, answer(5, { loss: [[0, 1]] }));
  assert.equal(from.subscriptions[0].handlers.cursor(), 5);
  from.subscriptions[0].handlers.message({
    type: "run",
    id: 1,
    cursor: 6,
    series: { loss: [wireLayer([[1, 2]])] },
  });
  assert.deepEqual([feed.set.get("loss")[0].x, feed.set.cursor, heard.length], [[0, 1], 6, 2]);
});

test("a resync and a reconnect request again; old data stays until the response arrives", async () => {
  const from = source();
  const { feed } = feedOf(from);
  void feed.load(["loss"], { from: null, to: null });
  await from.reply(0, answer(5, { loss: [[0, 1]] }));
  from.subscriptions[0].handlers.message({ type: "resync", id: 1 });
  assert.deepEqual([from.asked.length, feed.set.get("loss")[0].x], [2, [0]]);
  await from.reply(
    1,
    answer(9, {
      loss: [
        [0, 1],
        [1, 2],
      ],
    }),
  );
  assert.deepEqual([feed.set.get("loss")[0].x, from.subscriptions[0].ended], [[0, 1], true]);
  from.subscriptions[1].handlers.reconnected();
  assert.equal(from.asked.length, 3);
});

test("the newest window wins: a response to an older request is dropped", async () => {
  const from = source();
  const { feed } = feedOf(from);
  void feed.load(["loss"], { from: 0, to: 10 });
  void feed.load(["loss"], { from: 5, to: 6 });
  await from.reply(1, answer(2, { loss: [[5, 1]] }));
  await from.reply(0, answer(1, { loss: [[0, 1]] }));
  assert.deepEqual(feed.set.get("loss")[0].x, [5]);
});

test("a failure is reported and leaves the data unchanged", async () => {
  const from = source();
  const { feed, failures } = feedOf(from);
  void feed.load(["loss"], { from: null, to: null });
  await from.reply(0, answer(5, { loss: [[0, 1]] }));
  void feed.reload();
  await from.refuse(1, new Error("The server does not respond."));
  assert.deepEqual([failures, feed.set.get("loss")[0].x], [["The server does not respond."], [0]]);
});

test("a feed is complete once the series that are wanted now have arrived", async () => {
  const from = source();
  const { feed } = feedOf(from);
  void feed.load(["loss"], { from: null, to: null });
  await from.reply(0, answer(1, { loss: [] }));
  assert.equal(feed.complete, true);
  void feed.load(["loss", "loss/generator"], { from: null, to: null });
  assert.deepEqual([feed.ready, feed.complete], [true, false]);
});
