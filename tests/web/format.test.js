import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ago,
  bytes,
  clock,
  counted,
  int,
  moment,
  num,
  pow2,
  powers,
  ruleTitle,
  scale,
  short,
  span,
} from "../../web/lib/format.js";

test("whole numbers are grouped by narrow spaces, with a true minus", () => {
  assert.equal(int(18412), "18\u202f412");
  assert.equal(int(-1234567), "\u22121\u202f234\u202f567");
  assert.equal(int(-0.2), "0");
  assert.equal(int(null), "–");
});

test("numbers have four significant figures, and powers of ten below 1e-3 and from 1e5", () => {
  assert.deepEqual(
    [0.21, 13.456789, 1.3e-4, 123456, -0.5, 1e5, 1e-3].map((v) => num(v)),
    ["0.2100", "13.46", "1.3e-4", "1.235e5", "\u22120.5000", "1e5", "0.001000"],
  );
});

test("non-finite values are words and missing ones a dash, never 0", () => {
  assert.deepEqual([num(279.7, 2), num(12345.678), num(9999.96)], ["280", "12\u202f346", "10\u202f000"]);
  assert.deepEqual(
    [NaN, Infinity, -Infinity, null, undefined, 0].map((v) => num(v)),
    ["NaN", "+Inf", "\u2212Inf", "–", "–", "0"],
  );
});

test("trailing zeros are dropped", () => {
  assert.deepEqual(
    [0.5, 34.2, 10, 1000, 0.05].map((v) => short(v)),
    ["0.5", "34.2", "10", "1\u202f000", "0.05"],
  );
});

test("powers of two are shown as powers, with the number", () => {
  assert.equal(pow2(512), "2⁹");
  assert.equal(pow2(1), "2⁰");
  assert.equal(pow2(0.25), "2⁻²");
  assert.deepEqual(scale(512), ["2⁹", "512"]);
  assert.deepEqual([pow2(500), pow2(0), pow2(NaN), pow2(Infinity)], ["500", "0", "NaN", "+Inf"]);
  assert.deepEqual(scale(0), ["0", ""]);
  assert.deepEqual(
    [scale(0.5), scale(2 ** -144)],
    [
      ["2⁻¹", "0.5"],
      ["2⁻¹⁴⁴", "4.484e-44"],
    ],
    "values below 1 are not rounded to a whole number",
  );
});

test("durations and ages are readable", () => {
  assert.deepEqual([0.34, 8.2, 45, 240, 4080, 7200, 200000].map(span), [
    "0.3 s",
    "8.2 s",
    "45 s",
    "4 min",
    "68 min",
    "2 h",
    "2 d",
  ]);
  assert.deepEqual([ago(1000, 2000), ago(1000, 241000), ago(null, 5)], ["now", "4 min ago", "–"]);
  assert.deepEqual([ago(1, 8.9 * 3.6e6), ago(1, 19.9 * 3.6e6)], ["9 h ago", "20 h ago"]);
});

test("exact times include their time zone", () => {
  const at = Date.UTC(2026, 10, 20, 3, 12, 44);
  assert.equal(clock(at, "UTC"), "03:12:44");
  assert.match(moment(at, "UTC"), /20 Nov 2026.*03:12:44 UTC/);
});

test("rules become titles, counts have plurals, bytes have units", () => {
  assert.deepEqual(["scaler-collapse", "nonfinite-loss", "zero-lr", "masked-nan"].map(ruleTitle), [
    "Scaler collapse",
    "Non-finite loss",
    "Zero LR",
    "Masked NaN",
  ]);
  assert.deepEqual([counted(1, "alert"), counted(2, "alert")], ["1 alert", "2 alerts"]);
  assert.deepEqual([bytes(12), bytes(228000)], ["12 B", "228 kB"]);
});

test("powers in the server's summaries become superscripts", () => {
  assert.equal(powers("Loss scale fell 2^16 to 2^-3 in 40 steps"), "Loss scale fell 2¹⁶ to 2⁻³ in 40 steps");
});
