import assert from "node:assert/strict";
import { test } from "node:test";
import {
  groupKeys,
  groupsAt,
  groupsOf,
  meanOf,
  overlayGroups,
  summary,
} from "../../web/lib/charts/groups.js";
import { pow2 } from "../../web/lib/format.js";
import { STEPS } from "../../web/lib/charts/timeaxis.js";
import { layerOf } from "./layers.js";

const run = (id, config, more = {}) => ({ id, config, project: "p", tags: [], ...more });
const curve = (values, first = 0) => layerOf(values.map((value, i) => [first + i, value]));
const member = (layer, id = "r") => ({ id, layers: [layer], ink: "", dash: "", line: STEPS });
const gathered = (layers, id = "g") => ({
  group: { id, name: id, slot: 0, runs: [] },
  ink: "--run-1",
  dash: "",
  members: layers.map((layer, i) => member(layer, `r${i}`)),
});
const mean = (layers, band = "std", range = [0, 10], count = 1000) =>
  meanOf(gathered(layers), range, count, false, band).layer;
/** Numbers that look random but are the same in every run of the tests. */
function* chance(seed) {
  let state = seed;
  for (;;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    yield state / 2147483648;
  }
}

test("runs are grouped by the keys that differ, and groups are ordered by value", () => {
  const runs = [run("a", { lr: 0.01, wd: 1 }), run("b", { lr: 0.002, wd: 1 }), run("c", { lr: 0.01, wd: 1 })];
  assert.deepEqual(groupKeys(runs), [{ key: "config.lr", groups: 2 }]);
  assert.deepEqual(
    groupsOf(runs, ["config.lr"]).map(({ name, slot, runs }) => [name, slot, runs]),
    [
      ["lr = 0.002", 0, ["b"]],
      ["lr = 0.01", 1, ["a", "c"]],
    ],
  );
});

test("several keys make one group for each combination; a missing one is its own", () => {
  const runs = [run("a", { lr: 1, wd: 0 }), run("b", { lr: 1 }), run("c", { lr: 1, wd: 0 })];
  assert.deepEqual(
    groupsOf(runs, ["config.lr", "config.wd"]).map((group) => group.name),
    ["lr = 1, wd not set", "lr = 1, wd = 0"],
  );
});

test("tags that all runs have are left out", () => {
  const runs = [run("a", {}, { tags: ["s", "fp16"] }), run("b", {}, { tags: ["s"] })];
  assert.deepEqual(
    groupsOf(runs, ["tags"]).map((group) => group.name),
    ["no tags", "fp16"],
  );
});

test("the mean of equal runs is that run, and its band has no height", () => {
  const values = [0.1, 0.7, 1e-9, 3e8, 0.3];
  const { x, mean: means, min, max, n } = mean([curve(values), curve(values), curve(values)]);
  assert.deepEqual(x, [0, 1, 2, 3, 4]);
  assert.deepEqual(means, values);
  assert.deepEqual(min, values);
  assert.deepEqual(max, values);
  assert.deepEqual(n, [3, 3, 3, 3, 3]);
});

test("both bands contain the mean, and the range contains every value, for runs of any lengths", () => {
  const next = chance(7);
  const draw = () => next.next().value;
  for (let round = 0; round < 60; round++) {
    const layers = Array.from({ length: 1 + Math.floor(draw() * 6) }, () =>
      curve(
        Array.from({ length: 1 + Math.floor(draw() * 40) }, () => (draw() - 0.4) * 10 ** (draw() * 8)),
        Math.floor(draw() * 20),
      ),
    );
    for (const band of ["std", "range"]) {
      const found = mean(layers, band, [0, 60], 17);
      found.x.forEach((x, i) => assert.ok(found.min[i] <= found.mean[i] && found.mean[i] <= found.max[i]));
      const highest = Math.max(...layers.flatMap((layer) => layer.max));
      if (band === "range") assert.equal(Math.max(...found.max), highest);
    }
  }
});

test("the standard deviation is that of a sample", () => {
  const { min, max } = mean([curve([1]), curve([2]), curve([3]), curve([6])]);
  assert.ok(Math.abs(max[0] - (3 + Math.sqrt(14 / 3))) < 1e-12);
  assert.ok(Math.abs(min[0] - (3 - Math.sqrt(14 / 3))) < 1e-12);
});

test("a run that ended is not counted any more", () => {
  const { mean: means, n } = mean([curve([1, 1, 1, 1]), curve([3, 3])]);
  assert.deepEqual(means, [2, 2, 1, 1]);
  assert.deepEqual(n, [2, 2, 1, 1]);
});

test("a run is not counted where it is NaN or infinite, and stays marked there", () => {
  const layers = [curve([1, 1, 1]), curve([3, NaN, Infinity])];
  const found = mean(layers);
  assert.deepEqual(found.mean, [2, 1, 1]);
  assert.deepEqual(found.n, [2, 1, 1]);
  const { marks } = overlayGroups({ axis: "linear" }, [gathered(layers)], null, "std", [0, 3], 300, false, 0);
  assert.deepEqual(
    marks.map(({ kind, x }) => [kind, x]),
    [
      ["nan", 1],
      ["pinf", 2],
    ],
  );
});

test("between the records of a run its value is interpolated, or held", () => {
  const layers = [layerOf([0, 1, 2, 3, 4].map((x) => [x, 0])), layerOf([[0, 0], [4, 8]])]; // prettier-ignore
  assert.deepEqual(mean(layers).mean, [0, 1, 2, 3, 4]);
  assert.deepEqual(meanOf(gathered(layers), [0, 10], 1000, true, "std").layer.mean, [0, 0, 0, 0, 4]);
});

test("where runs are missing the line is thin", () => {
  const layers = [curve([1, 1, 1, 1]), curve([3, 3])];
  const { lines } = overlayGroups({ axis: "linear" }, [gathered(layers)], null, "std", [0, 4], 400, false, 0);
  const drawn = Object.fromEntries(lines.map((line) => [line.faint ? "thin" : "full", line.y]));
  assert.deepEqual(drawn.full, [2, 2, NaN, NaN]);
  assert.deepEqual(drawn.thin, [NaN, 2, 1, 1]);
});

test("the tooltip names the runs behind the mean", () => {
  const found = [meanOf(gathered([curve([1, 1, 1, 1]), curve([3, 3])]), [0, 10], 1000, false, "range")];
  const how = { band: "range", minus: false, held: false };
  const at = (x) => groupsAt(found, x, how).map(({ text, soft }) => [text, soft]);
  assert.deepEqual(at(1), [["2", "1 … 3 · 2 runs"]]);
  assert.deepEqual(at(3), [["1", "1 of 2 runs"]]);
  assert.deepEqual(at(9), []);
});

test("a group is subtracted from the others", () => {
  const groups = [gathered([curve([1, 2]), curve([3, 4])], "a"), gathered([curve([5, 5])], "b")];
  const { means, lines } = overlayGroups({ axis: "log" }, groups, "a", "std", [0, 2], 100, false, 0);
  assert.deepEqual(
    means.map(({ id, layer }) => [id, layer.mean]),
    [["b", [3, 2]]],
  );
  assert.equal(lines.length, 1);
});

test("a deviation that reaches below zero keeps the logarithmic axis", () => {
  const layers = [curve([1, 1e-3]), curve([100, 1e-5])];
  const { plan } = overlayGroups({ axis: "auto" }, [gathered(layers)], null, "std", [0, 2], 100, false, 0);
  assert.equal(plan.log, true);
});

test("the loss scale of a group is a power of two where all runs agree", () => {
  assert.equal(summary([65536, 65536, NaN], pow2).text, "2¹⁶");
  assert.equal(summary([65536, 32768], pow2).text, "49\u202f152");
});
