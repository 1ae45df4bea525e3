import assert from "node:assert/strict";
import { test } from "node:test";
import { FleetRows } from "../../web/data/fleetrows.js";

const row = (id, state) => ({ id, state });
const states = (rows) => [...rows.byId.values()].map(({ id, state }) => `${id} ${state}`);

test("a response replaces the rows that the socket did not change since its request", () => {
  const rows = new FleetRows();
  rows.receive({ items: [row("a", "running"), row("b", "running"), row("gone", "running")] });
  const asked = rows.now();
  rows.receive({ items: [row("a", "crashed"), row("new", "running")], removed: ["gone"] });
  rows.answer([row("gone", "running"), row("a", "running"), row("b", "finished")], asked);
  assert.deepEqual(states(rows), ["a crashed", "b finished", "new running"]);
});

test("a run that a response lacks is removed", () => {
  const rows = new FleetRows();
  rows.receive({ items: [row("a", "running"), row("b", "running")] });
  rows.answer([row("b", "running")], rows.now());
  assert.deepEqual(states(rows), ["b running"]);
});

test("only the sparklines of an older response are taken", () => {
  const rows = new FleetRows();
  rows.receive({ items: [row("a", "running"), row("gone", "running")] });
  const asked = rows.now();
  rows.receive({ items: [row("a", "crashed")], removed: ["gone"] });
  rows.sparks([{ ...row("a", "running"), sparks: 7 }, row("gone", "running")], asked);
  assert.deepEqual([...rows.byId.values()], [{ ...row("a", "crashed"), sparks: 7 }]);
});
