import assert from "node:assert/strict";
import { test } from "node:test";
import { companions, drawnBeside, firstOptimizer } from "../../web/lib/charts/optimizers.js";
import { picture } from "../../web/lib/charts/picture.js";
import { layerOf } from "./layers.js";

const GAN = ["loss", "stepped", "loss/generator", "stepped/generator", "lr/generator", "loss/l1"];

test("the loss of another optimizer belongs in the chart of the first; a logged component does not", () => {
  assert.deepEqual(
    companions("loss", GAN).map(({ series }) => series),
    ["loss/generator"],
  );
  assert.deepEqual([companions("grad_norm", GAN), companions("loss", null)], [[], []]);
});

test("what the charts of the vital signs draw gets no second chart", () => {
  assert.deepEqual(drawnBeside(GAN), ["loss/generator", "lr/generator"]);
});

test("at most three others are drawn, each with its own color and dash", () => {
  const many = ["a", "b", "c", "d"].flatMap((name) => [`lr/${name}`, `stepped/${name}`]);
  const found = companions("lr", many);
  assert.deepEqual(new Set(found.map(({ ink, dash }) => ink + dash)).size, 3);
});

test("the first optimizer is named by the source of its gradient norm", () => {
  const event = (series, optimizer) => ({ kind: "grad-norm-source", data: { series, optimizer } });
  assert.equal(firstOptimizer([event("generator", "g"), event("", "critic")]), "critic");
  assert.equal(firstOptimizer([]), "");
});

test("a series beside the first is drawn in its ink, within the axis, with its NaN", () => {
  const critic = layerOf([
    [0, 0],
    [50, -9],
  ]);
  const generator = layerOf([
    [0, 0],
    [40, NaN],
    [50, 9],
  ]);
  const beside = [{ layers: [generator], ink: "--run-2", dash: "6px,3px" }];
  const drawn = picture({ axis: "linear" }, [critic], [], [0, 50], 800, false, { beside });
  assert.deepEqual(
    drawn.lines.map(({ ink, dash }) => [ink, dash]),
    [
      [undefined, undefined],
      ["--run-2", "6px,3px"],
    ],
  );
  assert.ok(drawn.plan.range[0] <= -9 && drawn.plan.range[1] >= 9);
  assert.deepEqual(
    drawn.marks.map(({ x, kind }) => [x, kind]),
    [[40, "nan"]],
  );
});
