import assert from "node:assert/strict";
import { test } from "node:test";
import { durationText, ENDS, localMs, localText, secondsOf } from "../../web/lib/duration.js";

test("durations are parsed as users type them, and not guessed", () => {
  const read = Object.fromEntries(
    ["90", "90 s", "5min", "1 h 30 min", "2d", "0.5 h", ""].map((text) => [text, secondsOf(text)]),
  );
  assert.deepEqual(read, {
    90: 90,
    "90 s": 90,
    "5min": 300,
    "1 h 30 min": 5400,
    "2d": 172800,
    "0.5 h": 1800,
    "": null,
  });
  for (const text of ["soon", "5 x", "-3", "1e3", "5 constructor"]) assert.equal(secondsOf(text), null, text);
});

test("formatted durations parse to the same value", () => {
  for (const s of [0, 1, 5, 59.5, 60, 61, 3600, 5400, 14400, 86400, 90061]) {
    assert.equal(secondsOf(durationText(s)), s);
  }
});

test("ends of silences are in the future, those in the morning at nine", () => {
  for (const now of [
    new Date(2026, 10, 20, 8, 59),
    new Date(2026, 10, 20, 9, 0),
    new Date(2026, 10, 22, 23, 0),
    new Date(2026, 10, 23, 9, 30),
  ]) {
    for (const { at } of ENDS) assert.ok(at(now) > now);
    const monday = ENDS.find(({ key }) => key === "monday")?.at(now);
    assert.deepEqual([monday?.getDay(), monday?.getHours()], [1, 9]);
    assert.equal(
      ENDS.find(({ key }) => key === "morning")
        ?.at(now)
        .getHours(),
      9,
    );
  }
});

test("local times convert to the field and back, to the minute", () => {
  const ms = new Date(2026, 2, 4, 5, 6).getTime();
  assert.equal(localText(ms), "2026-03-04T05:06");
  assert.equal(localMs(localText(ms)), ms);
  assert.equal(localMs(""), null);
});
