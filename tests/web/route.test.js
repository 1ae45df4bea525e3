import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, askedIn, incidentAddress, isPage, match, runAddress } from "../../web/lib/route.js";

test("each page has its address, and run names may contain anything", () => {
  const pages = [
    "/",
    "/alerts",
    "/rules/",
    "/silences",
    "/routes",
    "/channels",
    "/deliveries",
    "/settings",
    "/compare",
    "/runs/a%2Fb",
    "/runs/%ff",
    "/else",
  ].map((path) => match(path).page);
  assert.deepEqual(pages, [
    "fleet",
    "alerts",
    "rules",
    "silences",
    "routes",
    "channels",
    "deliveries",
    "settings",
    "compare",
    "run",
    "run",
    "missing",
  ]);
  assert.equal(match(runAddress("a/b ?", { at: 3 }).split("?at")[0]).id, "a/b ?");
});

test("links to the API and to files are left to the browser", () => {
  assert.deepEqual(["/", "/alerts", "/runs/x", "/api/v1/runs", "/icon.svg", "/alertsx"].map(isPage), [
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
});

test("an address too long for a proxy goes behind the #, and both forms are read", () => {
  const short = "?run=a";
  const long = `?${"run=abcdefgh&".repeat(1000)}`;
  const parsed = (text) => new URL(text, "http://x");
  assert.equal(addressOf("/compare", short), "/compare?run=a");
  assert.equal(parsed(addressOf("/compare", long)).search, "");
  assert.deepEqual(
    [short, long, ""].map((text) => askedIn(parsed(addressOf("/compare", text)))),
    [short, long, ""],
  );
  assert.equal(askedIn(parsed(`/compare${long}`)), long);
});

test("an incident has its own page, whatever its id", () => {
  assert.deepEqual(match(incidentAddress("a/b.f.1 ?")), { page: "incident", id: "a/b.f.1 ?" });
  assert.ok(isPage("/incidents/x"));
});
