import assert from "node:assert/strict";
import { test } from "node:test";
import { Latest } from "../../web/data/latestrequest.js";

/** A Latest whose answers come when the test says so. */
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

test("of what is typed while an answer is on its way only the newest is asked for", async () => {
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

test("the same text is not asked for twice, a failed one is", async () => {
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

test("a text that was taken back meanwhile is not asked for", async () => {
  const { latest, asked, next } = slow();
  const done = latest.want("a");
  void latest.want("ab");
  void latest.want("a");
  next().answer();
  await done;
  assert.deepEqual(asked, ["a"]);
});
