import assert from "node:assert/strict";
import { test } from "node:test";
import { AlertStore } from "../../web/data/alertstore.js";
import { alertOf } from "./layers.js";

function bookOf(...items) {
  const fired = [];
  const book = new AlertStore({ alerts: async () => ({ items }) });
  book.onChange((alert) => fired.push(alert?.id ?? null));
  return { book, fired, items };
}

test("an alert that fired before the page was opened is not announced", async () => {
  const { book, fired } = bookOf(alertOf());
  await book.load();
  assert.deepEqual([fired, book.all().length], [[null], 1]);
});

test("a new critical alert is announced once, and its later states are not", async () => {
  const { book, fired } = bookOf();
  const alert = alertOf({ id: "x" });
  await book.load();
  book.take({ ...alert, state: "pending" });
  book.take(alert);
  book.take({ ...alert, state: "recovering" });
  assert.deepEqual(fired, [null, null, "x", null]);
});

test("further critical alerts of an open incident are not announced", async () => {
  const { book, fired } = bookOf();
  await book.load();
  for (const [id, incident] of [
    ["a", "x"],
    ["b", "x"],
    ["c", "y"],
  ]) {
    book.take(alertOf({ id, incident }));
  }
  assert.deepEqual(fired, [null, "a", null, "c"]);
});

test("an incident that becomes critical is announced", async () => {
  const { book, fired } = bookOf();
  await book.load();
  book.take(alertOf({ id: "a", incident: "x", severity: "warning" }));
  book.take(alertOf({ id: "b", incident: "x" }));
  assert.deepEqual(fired, [null, null, "b"]);
});

test("an alert that fired while the page was offline is announced on return", async () => {
  const { book, fired, items } = bookOf();
  await book.load();
  items.push(alertOf({ id: "missed" }));
  await book.load();
  assert.deepEqual(fired, [null, "missed"]);
});

test("alerts loaded with their run are not announced", () => {
  const { book, fired } = bookOf();
  book.learn([alertOf({ run_id: "q" })], book.now());
  assert.deepEqual([fired, book.of("q").length, book.of("r").length], [[null], 1, 0]);
});

test("resolved alerts are bounded, open ones are never dropped", () => {
  const { book } = bookOf();
  book.take(alertOf({ id: "open" }));
  for (let i = 0; i < 500; i++) book.take(alertOf({ state: "resolved" }));
  assert.deepEqual([book.all().length, book.all().some((alert) => alert.id === "open")], [401, true]);
});

test("an alert that the socket brings while the alerts load is newer than the response", async () => {
  const before = alertOf({ id: "known", state: "firing" });
  let answer;
  const book = new AlertStore({ alerts: () => new Promise((done) => (answer = done)) });
  const loading = book.load();
  book.take({ ...before, state: "resolved" });
  book.take(alertOf({ id: "fired" }));
  answer({ items: [before] });
  await loading;
  const states = book.all().map(({ id, state }) => [id, state]);
  assert.deepEqual(states, [
    ["known", "resolved"],
    ["fired", "firing"],
  ]);
});
