/** The frame of a chart: title, how it is drawn, exact value at the right, plot below. The frame is there before the data. */

import { el, say } from "../lib/dom.js";
import { countMarks } from "../lib/marks.js";
import { NOTHING } from "../lib/readout.js";
import { reading } from "../lib/series.js";

/**
 * A kind of panel: one file in panels/ each.
 * @typedef {{ name: string, title: string, height: number, colour: string, skips: boolean, drawing: import("../lib/picture.js").Drawing,
 *   read: (layer: Layer, i: number) => import("../lib/readout.js").Readout, note: (plan: { log: boolean }) => string }} PanelKind
 */

export class Panel {
  /** @param {PanelKind} kind @param {{ tag?: string, tall?: number }} [o] */
  constructor(kind, o = {}) {
    this.kind = kind;
    this.value = el("b", {}, "–");
    this.soft = el("span.muted.range");
    this.bad = el("span.is-critical");
    this.faults = el("span.faults", { hidden: true });
    this.note = el("span.micro.extra", {}, kind.note({ log: kind.drawing.axis !== "linear" && kind.drawing.axis !== "auto" }));
    this.plot = el("div.plot", { "--h": `${kind.height + (o.tall ?? 0)}px`, role: "img", "aria-label": `${kind.title} by step` });
    this.node = el(o.tag ?? "section.panel", { "aria-label": kind.title, "data-series": kind.name },
      el("div.panelhead", {}, el("h3", {}, ...titleOf(kind.title)), this.note, this.faults, el("span.readout", {}, this.value, this.soft, this.bad)), this.plot);
    this.log = false;
  }

  /** Writes the value at step `x`, or the newest. @param {Layer[]} layers @param {number | null} x */
  tell(layers, x) {
    const found = reading(layers, x);
    const read = found ? this.kind.read(found.layer, found.i) : NOTHING;
    say(this.value, read.value);
    say(this.soft, read.soft ? ` ${read.soft}` : "");
    say(this.bad, read.bad ? ` · ${read.bad}` : "");
    this.value.classList.toggle("is-critical", /NaN|Inf/.test(read.value));
  }

  /** A vital sign that this run never reported keeps only its head. @param {boolean} absent */
  absent(absent) {
    this.plot.hidden = absent;
    if (absent) say(this.note, "not reported by this run");
  }

  /** Takes note of what was drawn: how, and what stands on the rails. @param {import("../lib/picture.js").Picture} picture */
  drew(picture) {
    this.log = picture.plan.log;
    say(this.note, this.kind.note(picture.plan));
    const counts = countMarks(picture.marks);
    this.faults.hidden = !counts;
    say(this.faults, counts);
    this.plot.setAttribute("aria-label", `${this.kind.title} by step${counts ? `. In sight: ${counts}` : ""}${picture.empty ? ". No values in sight" : ""}`);
    this.plot.classList.toggle("is-empty", picture.empty);
  }
}

/** "act/attn_logit_max": the prefix steps back. @param {string} title */
function titleOf(title) {
  const cut = title.lastIndexOf("/") + 1;
  return cut ? [el("span.muted", {}, title.slice(0, cut)), title.slice(cut)] : [title];
}
