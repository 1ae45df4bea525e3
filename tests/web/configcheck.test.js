import assert from "node:assert/strict";
import { test } from "node:test";
import { configCheckOf, overheadOf } from "../../web/lib/runs/configcheck.js";

const finding = (change = {}) => ({
  check: "lr-zero",
  severity: "warning",
  subject: "opt1",
  expected: "above 0",
  got: "0",
  remedy: "set it",
  ...change,
});
const checkEvent = (data, change = {}) => ({
  id: 1,
  kind: "preflight",
  step: 0,
  time_ms: 0,
  attempt: 1,
  rank: 0,
  data,
  ...change,
});

test("no config check differs from a check without findings", () => {
  assert.equal(configCheckOf([]), null);
  assert.equal(configCheckOf([checkEvent({}, { kind: "phase" })]), null);
  assert.deepEqual(
    configCheckOf([checkEvent({ checks: ["lr-zero"], findings: [], not_checkable: [], took_ms: 2 })]),
    {
      findings: [],
      unseen: [],
      checks: 1,
      tookMs: 2,
    },
  );
});

test("the newest result of a check replaces its older ones", () => {
  const first = checkEvent({
    checks: ["lr-zero", "clamped-values"],
    findings: [finding(), finding({ check: "clamped-values", severity: "info" })],
    took_ms: 1,
  });
  const second = checkEvent({ checks: ["lr-zero"], findings: [], took_ms: 0.5 }, { step: 9 });
  const { findings, tookMs } = configCheckOf([first, second]);
  assert.deepEqual(
    findings.map(({ check }) => check),
    ["clamped-values"],
  );
  assert.equal(tookMs, 1.5);
});

test("severe findings come first, of the newest attempt and its lowest rank only", () => {
  const told = (severities) => ({
    checks: [],
    findings: severities.map((severity) => finding({ severity })),
    not_checkable: ["graph"],
    took_ms: 1,
  });
  const { findings, unseen } = configCheckOf([
    checkEvent(told(["critical"])),
    checkEvent(told(["info", "warning"]), { attempt: 2 }),
    checkEvent(told(["critical"]), { attempt: 2, rank: 1 }),
  ]);
  assert.deepEqual(
    findings.map(({ severity }) => severity),
    ["warning", "info"],
  );
  assert.deepEqual(unseen, ["graph"]);
});

test("malformed findings are dropped", () => {
  const { findings, unseen } = configCheckOf([
    checkEvent({
      checks: "x",
      findings: [null, 3, {}, { check: "a", severity: "<b>" }],
      not_checkable: [7, null],
      took_ms: "Infinity",
    }),
  ]);
  assert.deepEqual(
    findings.map(({ check, severity, subject }) => [check, severity, subject]),
    [["a", "info", ""]],
  );
  assert.deepEqual(unseen, []);
});

test("overhead is the newest value that the hook reported", () => {
  const fact = (name, last) => ({ name, n: 1, first_step: 0, last_step: 0, last });
  assert.equal(overheadOf([fact("loss", 1)]), null);
  assert.deepEqual(overheadOf([fact("hook/cost_us", 12.5), fact("hook/share_percent", 0.25)]), {
    us: 12.5,
    percent: 0.25,
  });
});
