import assert from "node:assert/strict";
import { test } from "node:test";
import {
  alertAt,
  bands,
  bySeverity,
  badgeCounts,
  tabTitle,
  beginsFiring,
  resolvedWord,
} from "../../web/lib/alerts/attention.js";
import { incidentsOf } from "../../web/lib/alerts/incidents.js";
import { alertOf } from "./layers.js";

test("open alerts are counted by severity and by silence", () => {
  const alerts = [
    alertOf(),
    alertOf({ state: "recovering", severity: "warning" }),
    alertOf({ state: "pending" }),
    alertOf({ state: "resolved" }),
    alertOf({ rule: "stalled", severity: "warning" }),
    alertOf({ rule: "trainer-lost", severity: "warning" }),
  ];
  assert.deepEqual(
    badgeCounts(incidentsOf(alerts), () => false),
    { critical: 1, warning: 3, stalled: 1, lost: 1, firing: 3 },
  );
});

test("an alert that its run ended with is counted until it is acknowledged", () => {
  const incidents = incidentsOf([alertOf({ id: "a", state: "ended" })]);
  assert.equal(badgeCounts(incidents, () => false).critical, 1);
  assert.equal(badgeCounts(incidents, ({ lead }) => lead.id === "a").critical, 0);
});

test("a withdrawn alert is not called resolved", () => {
  const summary =
    "Withdrawn: the log prints grad_norm in steps of 0.1, so zeros and equal values may be rounded";
  assert.equal(resolvedWord(alertOf({ state: "resolved", summary })), "withdrawn");
  const closed = "Closed: the rule loss-spike was switched off by ada";
  assert.equal(resolvedWord(alertOf({ state: "resolved", summary: closed })), "closed");
  assert.equal(resolvedWord(alertOf({ state: "resolved" })), "resolved");
});

test("the tab title shows how many alerts fire, and no number for none", () => {
  assert.deepEqual(
    [tabTitle("Fleet", 2), tabTitle("Fleet", 0), tabTitle("", 0)],
    ["(2) Fleet · tocsin", "Fleet · tocsin", "tocsin"],
  );
});

test("only a critical alert that starts to fire is announced, once, and never from late records", () => {
  const alert = alertOf();
  assert.equal(beginsFiring(undefined, alert), true);
  assert.equal(beginsFiring({ ...alert, state: "pending" }, alert), true);
  assert.equal(beginsFiring({ ...alert, severity: "warning" }, alert), true);
  assert.equal(beginsFiring(alert, alert), false);
  assert.equal(beginsFiring(undefined, { ...alert, late: true }), false);
  assert.equal(beginsFiring(undefined, { ...alert, severity: "warning" }), false);
});

test("the most urgent alert comes first: open, then severity, then the newest", () => {
  const order = [
    alertOf({ id: "gone", state: "resolved" }),
    alertOf({ id: "warn", severity: "warning" }),
    alertOf({ id: "old", fired_ms: 1 }),
    alertOf({ id: "new", fired_ms: 9 }),
    alertOf({ id: "soon", state: "pending" }),
  ].sort(bySeverity);
  assert.deepEqual(
    order.map((alert) => alert.id),
    ["new", "old", "warn", "soon", "gone"],
  );
});

test("bands run from the onset to the resolution, or to the newest step", () => {
  const alerts = [
    alertOf({ onset_step: 10 }),
    alertOf({ onset_step: 5, state: "resolved", resolved_step: 8 }),
    alertOf({ state: "pending" }),
  ];
  assert.deepEqual(bands(alerts, 100), [
    { severity: "critical", from: 5, to: 8 },
    { severity: "critical", from: 10, to: 100 },
  ]);
});

test("overlapping bands merge, and a warning's band ends where a critical one begins", () => {
  const alerts = [
    alertOf({ onset_step: 50 }),
    alertOf({ onset_step: 60 }),
    alertOf({ severity: "warning", onset_step: 20 }),
  ];
  assert.deepEqual(bands(alerts, 100), [
    { severity: "warning", from: 20, to: 50 },
    { severity: "critical", from: 50, to: 100 },
  ]);
});

test("a step under alert maps to the chosen alert, else to the most urgent", () => {
  const grave = alertOf({ id: "grave", onset_step: 10, state: "firing" });
  const past = alertOf({
    id: "past",
    severity: "warning",
    state: "resolved",
    onset_step: 5,
    fired_step: 6,
    resolved_step: 20,
  });
  const at = (step, chosen = null) => alertAt([past, grave], step, chosen, 100)?.id ?? null;
  assert.deepEqual(
    [at(4), at(6), at(15), at(15, "past"), at(99), at(101)],
    [null, "past", "grave", "past", "grave", null],
  );
});
