import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { COLORS, dashOf, inkOf } from "../../web/lib/views/compareview.js";

const STYLES = readFileSync(new URL("../../web/styles/tokens.css", import.meta.url), "utf8");

/** What is seen with all cones, and without the red, green or blue ones (Machado et al., 2009). */
const SEEN = {
  "full color vision": [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
/** Distances in OKLab: about 0.02 is just noticeable side by side. */
const LEAST = { "full color vision": 0.11, protanopia: 0.09, deuteranopia: 0.09, tritanopia: 0.07 };

const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, v, i) => sum + v * vector[i], 0));

/** The light and the dark color of a token, as linear red, green and blue. */
function colorsOf(token) {
  const [, ...pair] = STYLES.match(new RegExp(`${token}: light-dark\\((#\\w{6}), (#\\w{6})\\)`));
  return pair.map((hex) =>
    [1, 3, 5]
      .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)),
  );
}

function oklab(rgb) {
  const cones = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    rgb.map((c) => Math.min(1, Math.max(0, c))),
  );
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones.map(Math.cbrt),
  );
}

const RUNS = Array.from({ length: COLORS }, (_, slot) => colorsOf(inkOf(slot)));

for (const [kind, matrix] of Object.entries(SEEN)) {
  test(`no two colors of runs look alike with ${kind}, in both themes`, () => {
    for (const theme of [0, 1]) {
      const seen = RUNS.map((pair) => oklab(times(matrix, pair[theme])));
      const apart = seen.flatMap((one, i) =>
        seen.slice(0, i).map((other) => Math.hypot(...one.map((v, k) => v - other[k]))),
      );
      assert.ok(Math.min(...apart) >= LEAST[kind], `theme ${theme}: ${Math.min(...apart)}`);
    }
  });
}

for (const [kind, matrix] of Object.entries(SEEN)) {
  test(`neighbors in the legend of 4, 8, 20 and 60 runs differ in color or dash with ${kind}`, () => {
    for (const theme of [0, 1]) {
      const seen = RUNS.map((pair) => oklab(times(matrix, pair[theme])));
      for (const runs of [4, 8, 20, 60]) {
        for (let slot = 1; slot < runs; slot++) {
          const [one, other] = [seen[(slot - 1) % COLORS], seen[slot % COLORS]];
          const apart = Math.hypot(...one.map((v, k) => v - other[k]));
          assert.ok(
            apart >= LEAST[kind] || dashOf(slot, runs) !== dashOf(slot - 1, runs),
            `${runs} runs, ${slot}`,
          );
        }
      }
    }
  });
}

test("every color of a run has a contrast of 3 to the surface", () => {
  const light = (rgb) => times([[0.2126, 0.7152, 0.0722]], rgb)[0] + 0.05;
  const surface = colorsOf("--surface");
  for (const pair of RUNS) {
    pair.forEach((rgb, theme) => {
      const [low, high] = [light(rgb), light(surface[theme])].sort((a, b) => a - b);
      assert.ok(high / low >= 3, `theme ${theme}: ${high / low}`);
    });
  }
});

test("when the colors are used up, lines have another dash: sixty runs look different", () => {
  const looks = Array.from({ length: 60 }, (_, slot) => inkOf(slot) + dashOf(slot, 60));
  assert.equal(new Set(looks).size, 60);
});

test("more lines than there are styles are all solid", () => {
  const dashes = Array.from({ length: 61 }, (_, slot) => dashOf(slot, 61));
  assert.deepEqual([...new Set(dashes)], [""]);
});
