// Each vital-sign panel draws a series that the pages load.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { VITAL_SERIES } from "../../web/lib/charts/vitalsigns.js";
import { isMetric } from "../../web/panels/metric.js";

const PANELS = new URL("../../web/panels/", import.meta.url);
const vitals = readFileSync(new URL("vitals.js", PANELS), "utf8");

/** Names of the kinds in `KINDS`; vitals.js itself needs a browser. */
const kinds =
  /KINDS = \[([^\]]+)\]/
    .exec(vitals)?.[1]
    .split(",")
    .map((name) => name.trim()) ?? [];

test("the pages load the series of every vital sign, and the metrics leave it out", async () => {
  assert.ok(kinds.length >= 4);
  for (const name of kinds) {
    const file = new RegExp(`import \\{ ${name} \\} from "\\./(.+)";`).exec(vitals)?.[1];
    const kind = (await import(new URL(String(file), PANELS).href))[name];
    assert.ok(VITAL_SERIES.includes(kind.name), `${kind.name} is missing in VITAL_SERIES`);
    assert.equal(isMetric(kind.name), false);
  }
});
