import assert from "node:assert/strict";
import { test } from "node:test";
import {
  grouped,
  isMine,
  narrows,
  neighbour,
  PLAIN,
  readInbox,
  STATES,
  successor,
  tally,
  textFilter,
  writeInbox,
} from "../../web/lib/alerts/inbox.js";
import { incidentsOf } from "../../web/lib/alerts/incidents.js";
import { alertOf } from "./layers.js";

const NONE = { ack: null, silenced_by: [], inhibited_by: [] };
const ACK = { by: "t_1 night shift", at_ms: 1, note: "" };
const marksOf = (table) => (id) => ({ id, ...NONE, ...table[id] });

test("the address holds the whole view, and unreadable values are ignored", () => {
  const view = {
    state: "silenced",
    severity: "critical",
    project: "a b&c",
    rule: "loss-spike",
    q: 'run:"x y"',
    alert: "r.f.1",
  };
  assert.deepEqual(readInbox(writeInbox(view)), view);
  assert.equal(writeInbox(PLAIN), "");
  assert.deepEqual(readInbox("?state=nonsense&else=1"), PLAIN);
});

test("every alert is counted in each of its states", () => {
  const alerts = [
    alertOf({ id: "a" }),
    alertOf({ id: "b" }),
    alertOf({ id: "c" }),
    alertOf({ id: "p", state: "pending" }),
    alertOf({ id: "r", state: "resolved" }),
  ];
  const counts = tally(alerts, marksOf({ b: { ack: ACK }, c: { silenced_by: ["s"] } }), "night shift");
  assert.deepEqual(counts, { open: 3, mine: 1, silenced: 1, pending: 1, resolved: 1, all: 5 });
});

test("an alert that its run ended with stays open until it is acknowledged", () => {
  const alerts = incidentsOf([alertOf({ id: "a", state: "ended" }), alertOf({ id: "b", state: "ended" })]);
  const marks = marksOf({ b: { ack: ACK } });
  const keys = grouped(alerts, { ...PLAIN, state: "all" }, marks, "me").map(({ key, items }) => [
    key,
    items.map(({ id }) => id),
  ]);
  assert.deepEqual(keys, [
    ["ended", ["a"]],
    ["resolved", ["b"]],
  ]);
  assert.deepEqual(tally(alerts, marks, "me"), {
    open: 1,
    mine: 0,
    silenced: 0,
    pending: 0,
    resolved: 1,
    all: 2,
  });
});

test("groups list each alert once: acknowledged, silenced and pending ones apart", () => {
  const alerts = incidentsOf([
    alertOf({ id: "a", severity: "warning" }),
    alertOf({ id: "b" }),
    alertOf({ id: "t" }),
    alertOf({ id: "q" }),
    alertOf({ id: "p", state: "pending" }),
    alertOf({ id: "r", state: "resolved" }),
  ]);
  const groups = grouped(
    alerts,
    { ...PLAIN, state: "all" },
    marksOf({ t: { ack: ACK }, q: { inhibited_by: ["b"] } }),
    "me",
  );
  assert.deepEqual(
    groups.map((group) => [group.key, group.items.map((alert) => alert.id)]),
    [
      ["now", ["b", "a"]],
      ["acknowledged", ["t"]],
      ["muted", ["q"]],
      ["waiting", ["p"]],
      ["resolved", ["r"]],
    ],
  );
});

test("the alert being read stays listed when it no longer matches", () => {
  const alerts = incidentsOf([alertOf({ id: "a" }), alertOf({ id: "over", state: "resolved" })]);
  const ids = (alert) =>
    grouped(alerts, { ...PLAIN, alert }, marksOf({}), "me").flatMap((group) =>
      group.items.map((each) => each.id),
    );
  assert.deepEqual([ids("over"), ids("a")], [["a", "over"], ["a"]]);
});

test("words, fields and exclusions must all match", () => {
  const alert = alertOf({ rule: "loss-spike", run_name: "my run", project: "deblur", severity: "critical" });
  for (const text of [
    "",
    "spike",
    "rule:loss",
    'run:"my run"',
    "-severity:warning project:deb",
    "loss spike",
  ]) {
    assert.ok(textFilter(text)(alert), text);
  }
  for (const text of ["nothing", "rule:plateau", "-spike", "spike severity:info"]) {
    assert.ok(!textFilter(text)(alert), text);
  }
  assert.ok(!narrows({ ...PLAIN, project: "else" })(alert));
});

test("an acknowledgement is mine by the full name of my login", () => {
  assert.ok(isMine({ ...NONE, ack: ACK }, "night shift"));
  assert.ok(!isMine({ ...NONE, ack: ACK }, "shift2"));
  assert.ok(!isMine({ ...NONE, ack: { ...ACK, by: "t_1 x" } }, "night"));
  assert.ok(!isMine(NONE, "night shift"));
});

test("moving stops at the ends, and starts at the top if nothing is chosen", () => {
  const ids = ["a", "b", "c"];
  assert.deepEqual(
    [
      neighbour(ids, "a", 1),
      neighbour(ids, "c", 1),
      neighbour(ids, "a", -1),
      neighbour(ids, null, 1),
      neighbour([], "a", 1),
    ],
    ["b", "c", "a", "a", null],
  );
});

test("an alert that leaves the list is followed by the next, at the end by the previous", () => {
  assert.equal(successor(["a", "b", "c"], ["a", "c"], "b"), "c");
  assert.equal(successor(["a", "b", "c"], ["a", "b"], "c"), "b");
  assert.equal(successor(["a"], [], "a"), null);
  assert.ok(STATES.includes("mine"));
});
