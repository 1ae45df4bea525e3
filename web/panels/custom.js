/**
 * Charts that the reader composed of series of the run: several lines, or a formula.
 *
 * Data: the feed of panels/metricpanels.js. Draws: panels/plot.js, as a panel of panels/metricpanels.js.
 */

import { el, say } from "../browser/dom.js";
import {
  customColumns,
  customData,
  customTitle,
  resolve,
  usesMeans,
  whyEmpty,
} from "../lib/charts/customchart.js";
import { meanReadout } from "../lib/charts/readout.js";
import { givenTitle } from "../lib/charts/sections.js";
import { reading } from "../lib/charts/series.js";
import { Panel } from "./panel.js";

/**
 * @typedef {import("../lib/charts/customchart.js").Resolved} Resolved
 * @typedef {import("../lib/charts/customchart.js").CustomData} CustomData
 */

/**
 * @param {string} name
 * @returns {import("./panel.js").PanelKind}
 */
const kindOf = (name) => ({
  name,
  title: givenTitle(name) ?? customTitle(name),
  height: givenTitle(name) ? 116 : 188,
  color: "--run-1",
  skips: false,
  drawing: { axis: "auto" },
  read: meanReadout,
  note: (plan) => (plan.log ? "log" : ""),
});

export class CustomPanel extends Panel {
  /** @type {Resolved} */
  resolved = { lines: [], names: [], formula: null, problem: "", note: "" };

  /**
   * @param {string} name
   * @param {{ tag?: string, menuOf?: (panel: Panel) => Node, grip?: Node }} o
   */
  constructor(name, o) {
    super(kindOf(name), o);
    this.problem = el("p.soft.pad", { hidden: true, role: "status" });
    this.plot.before(this.problem);
  }

  get names() {
    return this.resolved.names;
  }

  /** @param {string[]} known series of the run */
  offer(known) {
    this.resolved = resolve(this.kind.name, known);
    const { lines, problem, note } = this.resolved;
    const [first, ...others] = lines;
    this.key(others, first?.name ?? "");
    this.node.classList.toggle("has-lines", lines.length > 1);
    this.#explain(problem || note);
  }

  /**
   * @param {(name: string) => Layer[]} layersOf
   * @param {boolean} loaded
   * @returns {CustomData[]}
   */
  data(layersOf, loaded) {
    const data = customData(this.resolved, layersOf);
    const { problem, note } = this.resolved;
    this.source = usesMeans(this.resolved, layersOf) ? "of bucket means, exact when zoomed in" : "";
    this.#explain(problem || (loaded ? whyEmpty(this.resolved, data, layersOf) : "") || note);
    return data;
  }

  /** @returns {import("../components/runs/valuetable.js").Values} */
  values() {
    return {
      title: this.kind.title,
      names: this.resolved.names,
      columns: customColumns(this.resolved),
    };
  }

  /** @param {string} text */
  #explain(text) {
    this.problem.hidden = !text;
    say(this.problem, text);
  }
}

/**
 * Put the first line that has a record at a step before the others.
 *
 * @param {CustomData[]} data
 * @param {number} step
 * @returns {CustomData[]}
 */
export function recordedFirst(data, step) {
  const there = data.filter(({ layers }) => reading(layers, step));
  return [...there, ...data.filter((each) => !there.includes(each))];
}
