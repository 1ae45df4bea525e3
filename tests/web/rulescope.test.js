import assert from "node:assert/strict";
import { test } from "node:test";
import { coverage, globMatches, usualRuns } from "../../web/lib/rules/rulescope.js";

const run = (id, incidents = 0) => ({ id, name: id, project: "p", state: "finished", incidents });

test("a backtest takes the newest runs, and up to four that had incidents", () => {
  const runs = [...Array(20).keys()].map((n) => run(`r${n}`, n > 12 ? 1 : 0));
  assert.deepEqual(usualRuns(runs), ["r0", "r1", "r2", "r3", "r13", "r14", "r15", "r16"]);
  assert.deepEqual(usualRuns([run("a"), run("b", 2)]), ["a", "b"]);
});

test("a glob matches as on the server", () => {
  const all = [
    ["val/*", "val/psnr", true],
    ["*", "", true],
    ["loss", "loss/D", false],
    ["l?ss*D", "loss/G/D", true],
    ["a*b*c", "aXbXb", false],
  ];
  for (const [glob, name, found] of all) assert.equal(globMatches(glob, name), found, `${glob} ${name}`);
});

test("it is said in how many runs of the scope a series is", () => {
  const series = [
    { name: "loss", runs: 3 },
    { name: "val/a", runs: 2 },
    { name: "val/b", runs: 1 },
  ];
  const scope = { total: 3, runs: [run("a"), run("b"), run("c")], series };
  assert.equal(coverage("loss", scope), "in 3 of 3 runs");
  assert.equal(coverage("val/*", scope), "2 series, the most frequent in 2 of 3 runs");
  assert.equal(coverage("psnr", scope), "No run in scope has this series.");
});
