/** The four vital signs on one step axis, with flags above, alerts from their onset, and one cross line through all. */

import { bands, byGravity, isOpen } from "../lib/attention.js";
import { CrossLine } from "../lib/crossline.js";
import { el } from "../lib/dom.js";
import { flagsOf, placeFlags } from "../lib/flags.js";
import { int, ruleTitle } from "../lib/format.js";
import { margins } from "../lib/plot.js";
import { picture } from "../lib/picture.js";
import { gradNorm } from "../panels/grad-norm.js";
import { learningRate } from "../panels/learning-rate.js";
import { loss } from "../panels/loss.js";
import { scale } from "../panels/scale.js";
import { icon } from "./icons.js";
import { Panel } from "./panel.js";

export const KINDS = [loss, gradNorm, scale, learningRate];
/** Series behind the four panels: `skipped` is the ticks below the scale. */
export const NAMES = [...KINDS.map((kind) => kind.name), "skipped"];
const AXIS_PX = 18;
/** Alerts whose onset is drawn as a line; more would be a fence. The gravest come first. */
const MOST_EDGES = 12;

/** @typedef {{ range: [number, number], last: number, alerts: Alert[], events: RunEvent[], chosen: string | null, reported: Set<string> | null, layers: (name: string) => Layer[] }} Scene what the board draws */

export class Vitals {
  /** @param {{ scene: () => Scene, pinned: (step: number | null) => void, told: (step: number | null) => void, resized: () => void, chose: (flag: import("../lib/flags.js").Flag) => void }} source */
  constructor(source) {
    this.source = source;
    this.flags = el("div.flags", { role: "group", "aria-label": "Alerts and events" });
    this.panels = KINDS.map((kind, i) => new Panel(kind, { tall: i === KINDS.length - 1 ? AXIS_PX : 0 }));
    const label = el("span"), line = el("div.cross", { hidden: true, "aria-hidden": "true" }, label);
    this.node = el("section.card.vitals", { tabindex: "0", "aria-label": "Vital signs over one step axis. Arrow keys move the cross line, Escape lets it go." }, this.flags, ...this.panels.map((panel) => panel.node), line);
    this.cross = new CrossLine(this.node, line, label, { width: () => this.width, range: () => source.scene().range, margins, pinned: source.pinned, told: (step) => this.#tell(step) });
    this.flagKey = "";
    this.width = 0;
    new ResizeObserver(([entry]) => { this.width = entry.contentRect.width; this.source.resized(); }).observe(this.node);
  }

  /** @param {import("../lib/plot.js").Plots} plots */
  draw(plots) {
    const { reported } = this.source.scene();
    for (const panel of this.panels.slice(0, -1)) panel.absent(reported !== null && !reported.has(panel.kind.name));
    this.panels.forEach((panel, i) => plots.draw(panel.plot, (width) => this.#drawn(panel, width, i === this.panels.length - 1)));
    this.#placeFlags();
    this.cross.refresh();
  }

  /** @param {Panel} panel @param {number} width @param {boolean} bottom */
  #drawn(panel, width, bottom) {
    const scene = this.source.scene();
    const drawn = picture(panel.kind.drawing, scene.layers(panel.kind.name), panel.kind.skips ? scene.layers("skipped") : [], scene.range, width, panel.log);
    panel.drew(drawn);
    return { picture: drawn, bands: bands(scene.alerts, scene.last), edges: edgesOf(scene.alerts, scene.chosen), xticks: bottom, colour: panel.kind.colour };
  }

  /** @param {number | null} step */
  #tell(step) {
    const { layers } = this.source.scene();
    for (const panel of this.panels) panel.tell(layers(panel.kind.name), step);
    this.source.told(step);
  }

  /** Flags are made anew only when one moves by a pixel. */
  #placeFlags() {
    const { range: [a, b], alerts, events, chosen } = this.source.scene(), { left, right } = margins(), width = this.width - left - right;
    if (width <= 0) return;
    const placed = placeFlags(flagsOf(alerts, events, chosen), (step) => left + ((step - a) / (b - a)) * width, left, left + width);
    const key = placed.map(({ flag, px, mirrored }) => `${flag.key} ${Math.round(px)} ${mirrored}`).join(";");
    if (key === this.flagKey) return;
    this.flagKey = key;
    this.flags.replaceChildren(...placed.map((place) => this.#flag(place)));
  }

  /** @param {{ flag: import("../lib/flags.js").Flag, px: number, mirrored: boolean }} place */
  #flag({ flag, px, mirrored }) {
    const text = flag.severity ? ruleTitle(flag.text) : flag.text;
    return el("button.flag", { type: "button", class: `${flag.severity} ${mirrored ? "left" : ""}`, "--x": `${px.toFixed(1)}px`, title: `${text}, from step ${int(flag.step)}`, onclick: () => this.source.chose(flag) }, flag.severity ? icon(flag.severity, flag.severity) : null, el("span", {}, text));
  }
}

/** Lines at the onsets of the gravest open alerts and of the chosen one, and where they rang; what has passed keeps its tint only. @param {Alert[]} alerts @param {string | null} chosen @returns {import("../lib/plot.js").Edge[]} */
export function edgesOf(alerts, chosen) {
  const shown = alerts.filter((alert) => (isOpen(alert) || alert.id === chosen) && alert.onset_step !== null).sort(byGravity).slice(0, MOST_EDGES);
  return shown.flatMap((alert) => {
    const edges = [{ x: Number(alert.onset_step), severity: alert.severity, rang: false }];
    const rang = alert.fired_step !== null && alert.fired_step !== alert.onset_step;
    return rang ? [...edges, { x: Number(alert.fired_step), severity: alert.severity, rang: true }] : edges;
  });
}
