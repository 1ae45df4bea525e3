import assert from "node:assert/strict";
import { test } from "node:test";
import { USUAL } from "../../web/lib/runs/columns.js";
import {
  listing,
  order,
  readFleet,
  resorted,
  shelfOf,
  shelfShown,
  writeFleet,
} from "../../web/lib/views/fleetview.js";
import { rowOf } from "./layers.js";

const PLAIN = readFleet("");
const rows = [
  rowOf({ id: "a", created_ms: 1, project: "x", last_step: 5, tags: ["t"] }),
  rowOf({ id: "b", created_ms: 2, project: "y", last_step: null }),
  rowOf({ id: "c", created_ms: 3, project: "x", last_step: 9, health: "critical" }),
  rowOf({ id: "d", created_ms: 0, project: "y", last_step: 7, health: "ended" }),
];
const shape = (view, pins = []) =>
  listing(rows, { ...PLAIN, ...view }, new Set(pins))
    .map((item) => ("row" in item ? item.row.id : `[${item.title}]`))
    .join(" ");

test("the address holds filter, order, groups, columns and selection", () => {
  const view = {
    q: "tag:a b&c",
    sort: "loss",
    down: true,
    group: "project",
    columns: ["name", "loss", "min:val,loss"],
    widths: { "min:val,loss": 80 },
    picked: ["r1", "r/2"],
    archived: true,
    deleted: true,
    kiosk: true,
    rotate: 30,
    standard: true,
  };
  assert.deepEqual(readFleet(writeFleet(view)), view);
  assert.equal(writeFleet(PLAIN), "");
});

test("an invalid address shows the default fleet", () => {
  assert.deepEqual(readFleet("?sort=nope&group=moon&columns=zzz&archived=maybe"), {
    ...PLAIN,
    columns: USUAL,
  });
});

test("by attention: most urgent first, newest first within a group, and updates move nothing", () => {
  assert.equal(shape({}), "[Critical] c [Healthy] b a [Ended] d");
  const moved = listing(rows.map((row) => ({ ...row, last_step: 99, loss: 3 })).reverse(), PLAIN, new Set());
  assert.equal(moved.map((item) => ("row" in item ? item.row.id : "")).join(""), "cbad");
});

test("groups by project, by tag and none; pinned runs are listed once, at the top", () => {
  assert.equal(shape({ group: "project" }), "[x] c a [y] b d");
  assert.equal(shape({ group: "tag" }), "[t] a [No tag] c b d");
  assert.equal(shape({ group: "none" }, ["d"]), "[Pinned] d c b a");
});

test("a column sorts both ways with unknown values last; a third click resets", () => {
  assert.equal(
    [...rows]
      .sort(order({ ...PLAIN, sort: "step", down: true }))
      .map((row) => row.id)
      .join(""),
    "cdab",
  );
  assert.equal(
    [...rows]
      .sort(order({ ...PLAIN, sort: "step", down: false }))
      .map((row) => row.id)
      .join(""),
    "adcb",
  );
  const once = resorted(PLAIN, "step");
  const twice = resorted({ ...PLAIN, ...once }, "step");
  const thrice = resorted({ ...PLAIN, ...twice }, "step");
  assert.deepEqual(
    [once, twice, thrice],
    [
      { sort: "step", down: true },
      { sort: "step", down: false },
      { sort: "", down: false },
    ],
  );
});

test("a non-finite loss sorts above every number", () => {
  const losses = [
    rowOf({ id: "n", last: { loss: "NaN" } }),
    rowOf({ id: "1", last: { loss: 1 } }),
    rowOf({ id: "-", last: { loss: null } }),
  ];
  assert.deepEqual(
    [...losses].sort(order({ ...PLAIN, sort: "loss", down: true })).map((row) => row.id),
    ["n", "1", "-"].slice(0, 3),
  );
});

test("a deleted run is listed as deleted, archived or not", () => {
  assert.deepEqual(
    [
      rowOf({}),
      rowOf({ archived: true }),
      rowOf({ archived: true, deletion_ms: 5 }),
      rowOf({ deletion_ms: null }),
    ].map(shelfOf),
    ["fleet", "archived", "deleted", "fleet"],
  );
  assert.deepEqual(
    ["", "?archived=1", "?deleted=1"].map((text) => shelfShown(readFleet(text))),
    ["fleet", "archived", "deleted"],
  );
});

test("settings of different kinds sort as numbers, then as text, unknown ones last", () => {
  const values = { a: "adam", b: 2, c: undefined, d: 10 };
  const sort = (down) =>
    [...rows]
      .sort(order({ ...PLAIN, sort: "config:x", down }, (id) => values[id]))
      .map((row) => row.id)
      .join("");
  assert.deepEqual([sort(false), sort(true)], ["bdac", "adbc"]);
});
