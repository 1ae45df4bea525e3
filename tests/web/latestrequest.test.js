import assert from "node:assert/strict";
import { test } from "node:test";
import { Latest } from "../../web/data/latestrequest.js";

/** A LatestRequest whose responses the test controls. */
function slow() {
  const asked = [];
  const shown = [];
  const waiting = [];
  const latest = new Latest(
    (text) => {
      asked.push(text);
      return new Promise((answer, fail) => waiting.push({ answer: () => answer(text), fail }));
    },
    (text) => shown.push(text),
    (text) => shown.push(`failed: ${text}`),
  );
  return { latest, asked, shown, next: () => waiting.shift() };
}

test("of texts typed during a request only the newest is requested", async () => {
  const { latest, asked, shown, next } = slow();
  const done = latest.want("a");
  for (const text of ["ab", "abc", "abcd"]) void latest.want(text);
  next().answer();
  await new Promise(setImmediate);
  next().answer();
  await done;
  assert.deepEqual(
    [asked, shown],
    [
      ["a", "abcd"],
      ["a", "abcd"],
    ],
  );
});

test("the same text is not requested twice unless it failed", async () => {
  const { latest, asked, shown, next } = slow();
  for (const fate of ["answer", "answer"]) {
    const done = latest.want("a");
    next()?.[fate]();
    await done;
  }
  const failing = latest.want("b");
  next().fail(new Error("away"));
  await failing;
  const again = latest.want("b");
  next().answer();
  await again;
  assert.deepEqual(
    [asked, shown],
    [
      ["a", "b", "b"],
      ["a", "failed: b", "b"],
    ],
  );
});

test("a text that was reverted meanwhile is not requested", async () => {
  const { latest, asked, next } = slow();
  const done = latest.want("a");
  void latest.want("ab");
  void latest.want("a");
  next().answer();
  await done;
  assert.deepEqual(asked, ["a"]);
});
