/** The state of a run in nine figures. */

import { el, refill, say } from "../../browser/dom.js";
import { ago, bytes, clock as clockTime, int, moment, num, short, span } from "../../lib/format.js";
import { overheadOf } from "../../lib/runs/configcheck.js";
import { icon } from "../icons.js";

/** A training process sends several times a second, so this many waiting records are normal. */
const FEW_WAITING = 100;

class Gauge {
  /**
   * @param {string} label
   * @param {boolean} [rare]
   */
  constructor(label, rare = false) {
    this.value = el("span", {}, "–");
    this.small = el("small");
    this.context = el("span.micro", {}, "\u00a0");
    this.node = el(
      "div.gauge",
      { class: rare ? "rare" : "" },
      el("span.micro", {}, label),
      el("div.v", {}, this.value, this.small),
      this.context,
    );
  }

  /**
   * @param {string} value
   * @param {string} [small]
   * @param {string} [context]
   * @param {string} [title]
   */
  set(value, small = "", context = "", title = "") {
    say(this.value, value);
    say(this.small, small ? ` ${small}` : "");
    say(this.context, context || "\u00a0");
    this.node.title = title;
  }
}

export class Gauges {
  constructor() {
    this.state = new Gauge("State");
    this.step = new Gauge("Step");
    this.rate = new Gauge("Throughput");
    this.eta = new Gauge("ETA");
    this.skipped = new Gauge("Skipped steps");
    this.faults = new Gauge("Non-finite values", true);
    this.attempt = new Gauge("Attempt", true);
    this.seen = new Gauge("Last record");
    this.overhead = new Gauge("Overhead", true);
    this.bar = el("i");
    this.progress = el("div.prog", { hidden: true }, this.bar);
    this.step.context.before(this.progress);
    this.shown = "";
    this.node = el(
      "section.card.cluster",
      { "aria-label": "State of the run" },
      ...[
        this.state,
        this.step,
        this.rate,
        this.eta,
        this.skipped,
        this.faults,
        this.attempt,
        this.seen,
        this.overhead,
      ].map((gauge) => gauge.node),
    );
  }

  /**
   * @param {RunRow} row
   * @param {number} now
   */
  show(row, now) {
    this.#state(row, now);
    const { last_step, planned_steps, steps_per_s } = row;
    this.step.set(
      int(last_step),
      planned_steps ? `/ ${int(planned_steps)}` : "",
      planned_steps ? "" : "total steps unknown",
    );
    this.progress.hidden = !planned_steps;
    this.step.context.hidden = Boolean(planned_steps);
    if (planned_steps) {
      this.bar.parentElement?.style.setProperty(
        "--p",
        `${Math.min(100, (100 * ((last_step ?? -1) + 1)) / planned_steps).toFixed(1)}%`,
      );
    }
    this.rate.set(
      row.state === "running" ? num(steps_per_s, 3) : "–",
      row.state === "running" && steps_per_s !== null ? "steps/s" : "",
      row.host ?? "",
    );
    this.eta.set(...eta(row, now));
    const steps = (last_step ?? -1) + 1;
    this.skipped.set(
      int(row.skipped),
      "",
      steps > 0 && row.skipped ? `${short((100 * row.skipped) / steps, 2)} % of steps` : "of the whole run",
    );
    this.faults.set(int(row.nonfinite), "", row.nonfinite ? "marked on the charts" : "none recorded");
    this.attempt.set(
      int(row.attempt),
      row.attempts > 1 ? `of ${int(row.attempts)}` : "",
      `started ${clockTime(row.created_ms)}`,
      moment(row.created_ms),
    );
    const { queued = 0, dropped = 0, spooled_bytes = 0 } = row.client ?? {};
    const lost = Math.max(dropped, row.lost_records);
    const late = [
      queued > FEW_WAITING ? `${int(queued)} buffered` : "",
      lost ? `${int(lost)} lost` : "",
    ].filter(Boolean);
    this.seen.context.classList.toggle("is-warning", lost > 0);
    this.seen.set(
      ago(row.last_seen_ms, now),
      "",
      late.join(" · ") || "0 records buffered",
      `${moment(row.last_seen_ms)}\n${int(queued)} records queued, ` +
        `${bytes(spooled_bytes)} in the offline buffer, ${int(lost)} records lost`,
    );
  }

  /**
   * What the hook costs per step.
   *
   * @param {SeriesRow[]} series
   */
  cost(series) {
    const cost = overheadOf(series);
    this.overhead.set(
      cost ? num(cost.us, 2) : "–",
      cost ? "µs/step" : "",
      cost && Number.isFinite(cost.percent) ? `${short(cost.percent, 2)} % of the step` : "not measured yet",
      "Time of a step spent in the hook's callbacks on the training thread; measured at one step in 64.",
    );
  }

  /**
   * @param {RunRow} row
   * @param {number} now
   */
  #state(row, now) {
    if (this.shown !== row.state) {
      refill(this.state.value, el("span.state", { class: row.state }, icon(row.state), row.state));
    }
    this.shown = row.state;
    const ran = row.ended_ms
      ? `after ${span((row.ended_ms - row.created_ms) / 1000)}`
      : row.client?.phase
        ? `phase: ${row.client.phase}`
        : `for ${span((now - row.created_ms) / 1000)}`;
    say(this.state.context, ran);
    this.state.node.title = row.state;
  }
}

/**
 * @param {RunRow} row
 * @param {number} now
 * @returns {[string, string, string]}
 */
function eta(row, now) {
  const { planned_steps, last_step, steps_per_s, state } = row;
  if (state !== "running" || !planned_steps || !steps_per_s || last_step === null) {
    return ["–", "", row.ended_ms ? `ended ${clockTime(row.ended_ms)}` : ""];
  }
  if (last_step + 1 >= planned_steps) return ["–", "", "past the planned end"];
  const left = Math.max(0, planned_steps - last_step - 1) / steps_per_s;
  return [span(left), "", `${clockTime(now + left * 1000)}${row.health === "ok" ? "" : ", if it recovers"}`];
}
