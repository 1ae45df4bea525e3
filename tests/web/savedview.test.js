import assert from "node:assert/strict";
import { test } from "node:test";
import { readFleet } from "../../web/lib/views/fleetview.js";
import { isSame, opened, projectOf, savedOf, viewOf } from "../../web/lib/views/savedview.js";

const PLAIN = readFleet("");
const VIEW = {
  ...PLAIN,
  q: 'val_loss<0.5 "a b"',
  columns: ["name", "min:val,loss"],
  widths: { "min:val,loss": 90 },
  sort: "min:val,loss",
  down: true,
  group: "none",
};
const saved = (fields) => ({
  ...savedOf(PLAIN),
  id: "v1",
  name: "best",
  project: "",
  is_default: false,
  ...fields,
});

test("a view is saved without selection, and shown as it was", () => {
  const kept = savedOf({ ...VIEW, picked: ["r"], archived: true, kiosk: true });
  assert.deepEqual({ ...PLAIN, ...viewOf(kept) }, VIEW);
  assert.ok(isSame(kept, savedOf({ ...PLAIN, ...viewOf(kept) })));
  assert.ok(!isSame(kept, savedOf(PLAIN)));
});

test("a stored view that is no longer readable shows the standard columns", () => {
  const old = viewOf({ filter: "", columns: "gone,nope", sort: "-gone", grouping: "moon" });
  assert.deepEqual({ ...PLAIN, ...old, down: false }, PLAIN);
});

test("an address without a view opens the default; any part of a view does not", () => {
  const views = [saved({ ...savedOf(VIEW), is_default: true })];
  assert.deepEqual({ ...PLAIN, ...opened(views, "?pick=r1") }, VIEW);
  for (const search of ["?q=tag:x", "?columns=name", "?sort=step", "?group=none"]) {
    assert.equal(opened(views, search), null, search);
  }
  assert.equal(opened([saved({})], ""), null);
});

test("a filter by nothing but a project opens the default of that project", () => {
  const views = [saved({ is_default: true }), saved({ project: "my p", is_default: true, filter: "tag:x" })];
  assert.equal(opened(views, '?q=project="my p"')?.q, 'project="my p" tag:x');
  assert.equal(opened(views, "?q=project:other"), null);
  assert.equal(opened(views, "?q=project:my p"), null);
});

test("an address names a view by its name or its id", () => {
  const views = [saved({ filter: "tag:x" })];
  assert.deepEqual(
    ["?view=best", "?view=v1&q=y", "?view=gone"].map((search) => opened(views, search)?.q ?? null),
    ["tag:x", "tag:x", null],
  );
});

test("the project of a filter is read as it is written", () => {
  assert.deepEqual(["project=p", 'project="my project"', "project=a/b"].map(projectOf), [
    "p",
    "my project",
    "a/b",
  ]);
  for (const q of ["tag:x", "project:a b", "project:", 'project:"a" tag:"b"x']) {
    assert.equal(projectOf(q), null);
  }
});
