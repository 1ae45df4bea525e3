import assert from "node:assert/strict";
import { test } from "node:test";
import { inside, outside, rootOf } from "../../web/lib/root.js";

test("the root is derived from where the pages were loaded", () => {
  const addresses = [
    "https://h/lib/root.js",
    "https://h/tocsin/lib/root.js",
    "http://h:8321/a/b/lib/root.js",
    "https://h/assets/web-0123abcd/lib/root.js",
    "https://h/tocsin/assets/web-0123abcd/lib/root.js",
    "file:///home/x/web/lib/root.js",
  ];
  assert.deepEqual(addresses.map(rootOf), ["", "/tocsin", "/a/b", "", "/tocsin", ""]);
});

test("tocsin's addresses get the root, others are unchanged", () => {
  const given = ["/", "/alerts?x", "//elsewhere/x", "https://h/x", "#main", "blob:x", ""];
  assert.deepEqual(
    given.map((address) => outside(address, "/t")),
    ["/t/", "/t/alerts?x", "//elsewhere/x", "https://h/x", "#main", "blob:x", ""],
  );
  assert.deepEqual(
    given.map((address) => outside(address, "")),
    given,
  );
});

test("a browser path maps to a page of tocsin, or to none", () => {
  assert.deepEqual(
    ["/t", "/t/", "/t/runs/x", "/tt/runs", "/alerts"].map((path) => inside(path, "/t")),
    ["/", "/", "/runs/x", "", ""],
  );
  assert.deepEqual(
    ["/", "/runs/x"].map((path) => inside(path, "")),
    ["/", "/runs/x"],
  );
});
