/** The layout of comparisons: series, charts of runs, groups, x axis and smoothing. A project has one. */

import { readCompare, writeCompare } from "./compareview.js";

/** @typedef {import("./compareview.js").CompareView} CompareView */

const FIELDS = /** @type {const} */ ([
  "series",
  "charts",
  "group",
  "band",
  "metric",
  "goal",
  "x",
  "logX",
  "smooth",
  "smoothing",
]);
const KEYS = [
  ...["series", "chart", "group", "band", "metric", "goal"],
  ...["x", "logx", "smooth", "smoothing", "layout"],
];
const EMPTY = readCompare("");

/**
 * @param {CompareView} view
 * @returns {Pick<CompareView, (typeof FIELDS)[number]>}
 */
const picked = (view) => /** @type {any} */ (Object.fromEntries(FIELDS.map((field) => [field, view[field]])));

const read = (/** @type {string} */ text) => picked(readCompare(`?${text}`));

/** @type {import("./layout.js").LayoutKind<CompareView>} */
export const COMPARE_LAYOUT = {
  page: "compare",
  words: "Everyone who compares runs of this project sees these charts, groups and this x axis first.",
  standard: picked(EMPTY),
  read,
  text: (view) => writeCompare({ ...EMPTY, ...picked(view) }).slice(1),
  laidOut: (view, search, text) => {
    const asked = new URLSearchParams(search);
    return KEYS.some((key) => asked.has(key)) ? view : { ...view, ...read(text) };
  },
};
