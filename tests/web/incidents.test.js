import assert from "node:assert/strict";
import { test } from "node:test";
import {
  distinguished,
  incidentsOf,
  leadsOf,
  marksOfIncident,
  runNames,
  runsOf,
  together,
  worded,
} from "../../web/lib/alerts/incidents.js";
import { alertOf } from "./layers.js";

const NONE = { ack: null, silenced_by: [], inhibited_by: [] };
const marksOf = (table) => (id) => ({ id, ...NONE, ...table[id] });
const nan = () => [
  alertOf({ id: "jump", incident: "jump", severity: "warning", onset_step: 5, state: "resolved" }),
  alertOf({ id: "norm", incident: "jump", onset_step: 12, onset_ms: 1, causal_order: 7 }),
  alertOf({ id: "loss", incident: "jump", onset_step: 13, onset_ms: 2, causal_order: 6 }),
];

test("alerts of one incident are one row, led by the most severe and nearest to the cause", () => {
  const [row, ...others] = incidentsOf([...nan(), alertOf({ id: "x", incident: "x" })]);
  assert.deepEqual(
    [row.id, row.lead.id, row.alerts.map(({ id }) => id), others.length],
    ["jump", "loss", ["loss", "norm", "jump"], 1],
  );
  assert.deepEqual([row.state, row.onset_step], ["firing", 5]);
});

test("an incident is over when every alert is, at the time of the last one", () => {
  const over = nan().map((alert, at) => ({ ...alert, state: "resolved", resolved_ms: at }));
  const [row] = incidentsOf(over);
  assert.deepEqual([row.state, row.resolved_ms], ["resolved", 2]);
});

test("an incident of several runs names that of its lead and counts the others", () => {
  const other = { incident: "jump", run_id: "r2", run_name: "second", severity: "info" };
  const [row] = incidentsOf([...nan(), alertOf({ ...other, id: "b" }), alertOf({ ...other, id: "c" })]);
  assert.deepEqual(
    runsOf(row).map(({ id }) => id),
    [row.lead.run_id, "r2"],
  );
  assert.equal(runNames(row), `${row.lead.run_name} and 1 more run`);
  assert.equal(runNames(incidentsOf(nan())[0]), row.lead.run_name);
  const early = alertOf({ ...other, id: "d", severity: "critical", onset_step: 1, causal_order: 99 });
  assert.equal(incidentsOf([...nan(), early])[0].onset_step, 5);
});

test("a pending alert is a row of its own", () => {
  const alerts = [alertOf({ id: "p", state: "pending" }), alertOf({ id: "q", state: "pending" })];
  assert.equal(incidentsOf(alerts).length, 2);
});

test("the chosen alert stands for its incident, else the lead", () => {
  assert.deepEqual(
    ["norm", null].map((chosen) => leadsOf(nan(), chosen).map(({ id }) => id)),
    [["norm"], ["loss"]],
  );
});

test("an incident is acknowledged with its lead, and silenced if all of its open alerts are", () => {
  const [row] = incidentsOf(nan());
  const ack = { by: "me", at_ms: 1, note: "" };
  assert.equal(marksOfIncident(row, marksOf({ loss: { ack } })).ack, ack);
  assert.equal(marksOfIncident(row, marksOf({ norm: { ack } })).ack, null);
  const silenced = { silenced_by: ["s"] };
  assert.deepEqual(marksOfIncident(row, marksOf({ loss: silenced })).silenced_by, []);
  assert.deepEqual(marksOfIncident(row, marksOf({ loss: silenced, norm: silenced })).silenced_by, ["s"]);
});

test("alerts that end together are one line of the history, others stay apart", () => {
  const line = (kind, at_ms, state, text, alert) => ({
    kind,
    at_ms,
    state,
    text,
    alert,
    rule: alert,
    by: "",
  });
  const lines = [
    line("transition", 1, "firing", "Loss is NaN", "a"),
    line("transition", 1, "firing", "Norm is NaN", "b"),
    line("notification", 2, "sent", "firing: x", ""),
    line("notification", 2, "sent", "firing: x", ""),
    line("transition", 3, "ended", "Run ended: finished", "a"),
    line("transition", 3, "ended", "Run ended: finished", "b"),
  ];
  assert.deepEqual(
    together(lines).map(({ rule, text }) => [rule, text]),
    [
      ["a", "Loss is NaN"],
      ["b", "Norm is NaN"],
      ["", "firing: x"],
      ["", "firing: x"],
      ["", "2 alerts. Run ended: finished"],
    ],
  );
});

test("a history names the series of alerts of one rule, or since when, if there are several", () => {
  const alert = (id, rule, subject, onset_step) => ({ id, rule, subject, onset_step, run_id: "r" });
  const textsOf = (alerts) =>
    distinguished(
      alerts.map(({ id, rule }) => ({ alert: id, rule, text: "higher" })),
      alerts,
    ).map(({ text }) => text);
  const [spike, other] = [alert("a", "loss-spike", "loss", 5), alert("b", "lr-jump", "lr", 5)];
  assert.deepEqual(textsOf([spike, other]), ["higher", "higher"]);
  assert.deepEqual(textsOf([spike, alert("c", "loss-spike", "val/loss", 5)]), [
    "loss: higher",
    "val/loss: higher",
  ]);
  assert.deepEqual(textsOf([spike, alert("d", "loss-spike", "loss", 9)]), [
    "since step 5: higher",
    "since step 9: higher",
  ]);
});

test("a history says that an alert became more severe, and names the channel of a notification", () => {
  const line = (kind, state, text, alert) => ({ kind, at_ms: 1, state, text, alert, by: "", rule: "" });
  const lines = [
    line("transition", "firing", "Loss is NaN", "a"),
    line("transition", "firing", "Norm is NaN", "b"),
    line("notification", "sent", "firing: on call", ""),
    line("transition", "firing", "Loss is NaN", "a"),
  ];
  assert.deepEqual(
    worded(lines).map(({ state, text }) => [state, text]),
    [
      ["firing", "Loss is NaN"],
      ["firing", "Norm is NaN"],
      ["sent", "on call, firing"],
      ["more severe", "Loss is NaN"],
    ],
  );
});
