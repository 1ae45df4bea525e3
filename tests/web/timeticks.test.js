import assert from "node:assert/strict";
import { test } from "node:test";
import { spanTicks, wallTicks } from "../../web/lib/charts/timeticks.js";

const MIN = 60_000;
const H = 60 * MIN;
const D = 24 * H;
const UTC = () => 0;

test("every range has a few ticks at whole units", () => {
  for (const end of [7, 900, 30_000, 5 * MIN, 3 * H, 2 * D, 90 * D, 4000 * D]) {
    const { values, labels } = spanTicks([0, end]);
    assert.ok(values.length >= 2 && values.length <= 8, `${end}: ${labels}`);
    assert.equal(new Set(labels).size, labels.length, `${labels}`);
    assert.equal(labels[0], "0");
  }
});

test("elapsed times are readable", () => {
  assert.deepEqual(spanTicks([0, 30 * MIN]).labels.slice(0, 3), ["0", "5 min", "10 min"]);
  assert.deepEqual(spanTicks([0, 3 * H]).labels.slice(0, 4), ["0", "30 min", "1:00 h", "1:30 h"]);
});

test("ticks are at round local times, with the date at midnight", () => {
  const { values, labels } = wallTicks([D - H, D + H], UTC);
  assert.ok(values.every((value) => value % (20 * MIN) === 0 || value % (15 * MIN) === 0));
  assert.equal(labels[values.indexOf(D)], "00:00<br>2 Jan");
  assert.ok(labels[0].includes("1 Jan"));
});

test("a time zone of half an hour has ticks at its whole hours", () => {
  const { values } = wallTicks([0, 6 * H], () => 30 * MIN);
  assert.ok(values.every((value) => (value + 30 * MIN) % H === 0));
});
