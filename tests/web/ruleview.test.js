import assert from "node:assert/strict";
import { test } from "node:test";
import {
  levelOf,
  listed,
  readRules,
  ruleAddress,
  sourceText,
  writeRules,
} from "../../web/lib/views/ruleview.js";

const own = (fields) => ({
  kind: "custom",
  id: "a",
  title: "",
  series: "loss",
  source: "",
  description: "",
  projects: [],
  tags: [],
  severity: "warning",
  enabled: true,
  ...fields,
});
const builtin = (fields) => ({
  kind: "builtin",
  id: "plateau",
  title: "Loss does not fall",
  severity: "info",
  enabled: true,
  settings: [],
  effective: { severity: null, settings: {} },
  tunings: [],
  ...fields,
});
const RULES = [
  own({}),
  own({ id: "b", series: "val/psnr", enabled: false }),
  builtin({}),
  builtin({ id: "stalled", title: "Steps have stopped", severity: "critical", tunings: [{}] }),
];
const ids = (search) =>
  listed(RULES, readRules(search))
    .map((rule) => rule.id)
    .join(" ");

test("the address holds the whole view", () => {
  const view = {
    q: "a b&c",
    severity: "critical",
    state: "changed",
    project: "x",
    rule: "r",
    fresh: true,
    copy: "y",
    series: "grad_norm",
  };
  assert.deepEqual(readRules(writeRules(view)), view);
  assert.equal(writeRules(readRules("?severity=page&state=maybe")), "");
});

test("a chart has the address of a new rule for its series", () => {
  assert.equal(ruleAddress("val/loss", "a b"), "/rules?project=a+b&new=1&series=val%2Floss");
});

test("search, severity and state narrow the list", () => {
  assert.equal(ids(""), "a b plateau stalled");
  assert.equal(ids("?q=psnr"), "b");
  assert.equal(ids("?q=loss+fall"), "plateau");
  assert.equal(ids("?severity=critical"), "stalled");
  assert.equal(ids("?state=off"), "b");
  assert.equal(ids("?state=changed"), "a b stalled");
});

test("a tuned severity overrides the rule's own", () => {
  assert.equal(levelOf(builtin({ effective: { severity: "warning", settings: {} } })), "warning");
  assert.deepEqual(["", "pack:gan", "team"].map(sourceText), ["", "pack gan", "file team"]);
});
