import assert from "node:assert/strict";
import { test } from "node:test";
import { onsetWindow, wider } from "../../web/lib/charts/onsetwindow.js";

const incident = (onset, ...fired) => ({
  onset_step: onset,
  alerts: fired.map((step) => ({ fired_step: step })),
});

test("the window has as many steps before the onset as after it", () => {
  assert.deepEqual(onsetWindow(incident(1000, 1010)), [850, 1150]);
});

test("an alert that was detected late is in the window with its onset", () => {
  const [from, to] = onsetWindow(incident(10_000, 12_000));
  assert.ok(from < 10_000 && to > 12_000);
});

test("a late alert of the incident widens the window, but not without limit", () => {
  assert.deepEqual(onsetWindow(incident(1000, 1010, 1500)), [850, 1500]);
  assert.deepEqual(onsetWindow(incident(1000, 1010, 900_000)), [850, 1600]);
});

test("a window with few points grows until it shows the whole run", () => {
  let range = [850, 1150];
  let times = 0;
  for (let next = wider(range, 100_000); next; next = wider(range, 100_000)) {
    range = next;
    times++;
  }
  assert.ok(range[0] === 0 && range[1] >= 100_000);
  assert.ok(times < 10);
});
