import assert from "node:assert/strict";
import { test } from "node:test";
import { Notifier } from "../../web/data/notifier.js";

const note = (id) => ({ id, kind: "alerts", title: `title ${id}`, created_ms: 0, reason: "", alerts: [] });

function notifierOf(kept = {}, notes = [], permission = "granted") {
  const shown = [];
  const storage = {
    getItem: (key) => kept[key] ?? null,
    setItem: (key, value) => {
      kept[key] = value;
    },
  };
  const source = {
    notes: async (after) => {
      const items = after === null ? notes.slice(-1) : notes.filter(({ id }) => id > after);
      return { items, next: items.at(-1)?.id ?? after };
    },
  };
  return {
    shown,
    kept,
    notifier: new Notifier(
      source,
      { permission: () => permission, show: (title) => shown.push(title) },
      storage,
      () => ({ body: "", address: "/", tag: "" }),
    ),
  };
}

test("notifications from before the page was opened are not shown", async () => {
  const { shown, notifier } = notifierOf({}, [note("n_1"), note("n_2")]);
  await notifier.catchUp(false);
  notifier.receive(note("n_2"));
  assert.deepEqual(shown, []);
});

test("each is shown once, however it arrives", async () => {
  const { shown, notifier } = notifierOf({}, [note("n_1"), note("n_2"), note("n_3")]);
  notifier.receive(note("n_1"));
  notifier.receive(note("n_1"));
  await notifier.catchUp(true);
  assert.deepEqual(shown, ["title n_1", "title n_2", "title n_3"]);
});

test("without permission nothing is shown, also not later", () => {
  const { shown, kept, notifier } = notifierOf({}, [], "default");
  notifier.receive(note("n_5"));
  assert.deepEqual([shown, kept["tocsin.notified"]], [[], "n_5"]);
});
