/** The bar above the charts of the comparison: x axis, smoothing, difference to the baseline, more series. */

import { el } from "../../browser/dom.js";
import { keyName } from "../../lib/charts/groups.js";
import { int } from "../../lib/format.js";
import { MOST_LISTED as MOST_LISTED_RUNS } from "../../lib/views/compareview.js";
import { menu } from "../menu.js";
import { SmoothingChoice } from "./smoothing.js";
import { XChoice } from "./xchoice.js";

/** @typedef {import("../../lib/views/compareview.js").CompareView} CompareView */

const ALIGN = /** @type {const} */ ([
  ["step", "Step"],
  ["relative", "Relative"],
  ["wall", "Wall time"],
  ["tokens", "Tokens"],
]);
const BANDS = /** @type {const} */ ([
  ["std", "± Std", "Band: standard deviation of the runs of a group"],
  ["range", "Min–max", "Band: smallest to largest value of the runs of a group"],
]);
/** As many metrics as the menu lists. */
const MOST_LISTED = 300;

export class CompareBar {
  /**
   * `metrics` returns the names of series that can be added, `names` those that can be the x axis, `keys` by
   * what runs can be grouped.
   *
   * @param {Node} layout
   * @param {{ view: () => CompareView, set: (change: Partial<CompareView>) => void,
   *   metrics: () => string[], names: () => string[], keys: () => { key: string, groups: number }[] }} source
   */
  constructor(layout, source) {
    this.source = source;
    const { set, view } = source;
    this.x = new XChoice(ALIGN, (axis) =>
      set("x" in axis ? { ...axis, from: null, to: null, at: null } : axis),
    );
    this.smoothing = new SmoothingChoice(source);
    this.diff = el(
      "button.btn",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => set({ difference: !view().difference }),
      },
      "Difference to baseline",
    );
    this.bands = BANDS.map(([kind, text, title]) =>
      el("button", { type: "button", title, "data-band": kind, onclick: () => set({ band: kind }) }, text),
    );
    this.band = el("div.seg", { role: "group", "aria-label": "Band", hidden: true }, ...this.bands);
    this.reset = el(
      "button.btn",
      { type: "button", disabled: true, onclick: () => set({ from: null, to: null, limits: {} }) },
      "Reset ",
      el("kbd.wide-only", {}, "R"),
    );
    this.node = el(
      "div.bar.then",
      {},
      this.x.node,
      this.smoothing.node,
      this.diff,
      menu("Group by", () => this.#keys(), { text: "Group", shape: "compare" }),
      this.band,
      menu("Series", () => this.#items(), { text: "Series", shape: "fleet" }),
      layout,
      el("span.grow"),
      this.reset,
    );
  }

  /** @param {CompareView} view */
  show(view) {
    const many = view.runs.length > MOST_LISTED_RUNS;
    this.x.show(view, this.source.names(), many);
    this.smoothing.show();
    this.band.hidden = !view.group.length && !many;
    for (const each of this.bands) each.setAttribute("aria-pressed", String(each.dataset.band === view.band));
    this.diff.setAttribute("aria-pressed", String(view.difference));
    this.diff.toggleAttribute("disabled", view.runs.length < 2);
    this.reset.toggleAttribute("disabled", view.from === null && !Object.keys(view.limits).length);
  }

  #keys() {
    const { group } = this.source.view();
    const keys = this.source.keys();
    const set = (/** @type {string[]} */ to) => this.source.set({ group: to });
    return [
      { head: keys.length ? "Group by" : "These runs have equal settings" },
      ...(group.length ? [{ text: "No groups", act: () => set([]) }] : []),
      ...keys.slice(0, MOST_LISTED).map(({ key, groups }) => ({
        text: keyName(key),
        hint: `${int(groups)} groups`,
        on: group.includes(key),
        alone: true,
        act: () => set(group.includes(key) ? group.filter((each) => each !== key) : [...group, key]),
      })),
    ];
  }

  #items() {
    const names = this.source.metrics();
    const { series } = this.source.view();
    return [
      { head: names.length ? "Add metric" : "No other metrics" },
      ...names.slice(0, MOST_LISTED).map((name) => ({
        text: name,
        on: series.includes(name),
        act: () =>
          this.source.set({
            series: series.includes(name) ? series.filter((each) => each !== name) : [...series, name],
          }),
      })),
    ];
  }
}
