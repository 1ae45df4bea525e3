import assert from "node:assert/strict";
import { test } from "node:test";
import { settingHint, settingName, settingValue } from "../../web/lib/rules/rulesettings.js";

test("a setting has a readable name", () => {
  assert.equal(settingName("new_baseline_records"), "New baseline records");
  assert.equal(settingName("lr_rise_ratio"), "LR rise ratio");
  assert.equal(settingName("warning_s"), "Warning (s)");
  assert.equal(settingName("quiet_records_after_nan"), "Quiet records after NaN");
});

test("a value has its unit, and a relative one also percent", () => {
  assert.equal(settingValue(200, "records"), "200 records");
  assert.equal(settingValue(0.05, "relative"), "0.05 (5\u00a0%)");
  assert.equal(settingValue(1e-5, "relative"), "1e-5 (0.001\u00a0%)");
});

test("one record is not one records", () => {
  assert.equal(settingValue(1, "records"), "1 record");
  assert.equal(settingValue(1, "bins of 16 records"), "1 bin of 16 records");
  assert.equal(settingValue(1, "x first losses"), "1 x first losses");
  assert.equal(settingValue(1, "loss"), "1 loss");
});

test("the hint says what a setting means and its default", () => {
  const setting = { value: 2, unit: "x median", help: "Loss at which one outlier is a warning" };
  assert.equal(settingHint(setting), "Loss at which one outlier is a warning. Default: 2 x median.");
});
