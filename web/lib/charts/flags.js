/** Places the flags above the charts: most important first, without overlap. */

import { isOver } from "../alerts/attention.js";

/** @typedef {{ step: number, text: string, severity: Severity | "", weight: number, key: string }} Flag */

const LETTER_PX = 6.2;
const FRAME_PX = 26;
const GAP_PX = 4;

/** @param {Flag} flag */
const widthOf = (flag) => flag.text.length * LETTER_PX + FRAME_PX;

/**
 * @param {Flag} flag
 * @param {number} px
 * @param {boolean} mirrored
 */
const spotOf = (flag, px, mirrored) => ({
  flag,
  px,
  mirrored,
  from: mirrored ? px - widthOf(flag) : px,
  to: mirrored ? px : px + widthOf(flag),
});

/**
 * @param {Flag[]} flags
 * @param {(step: number) => number} toPx
 * @param {number} left
 * @param {number} right
 * @param {number} most
 * @returns {{ flag: Flag, px: number, mirrored: boolean }[]} mirrored: the text is to the left of its step
 */
export function placeFlags(flags, toPx, left, right, most = 40) {
  /** @type {{ flag: Flag, px: number, mirrored: boolean, from: number, to: number }[]} */
  const placed = [];
  for (const flag of [...flags].sort((a, b) => b.weight - a.weight || b.step - a.step)) {
    const px = toPx(flag.step);
    if (placed.length >= most || !(px >= left && px <= right)) continue;
    const spot = [spotOf(flag, px, false), spotOf(flag, px, true)].find(
      (each) =>
        each.from >= 0 &&
        each.to <= right + 2 &&
        !placed.some((other) => each.from < other.to + GAP_PX && each.to > other.from - GAP_PX),
    );
    if (spot) placed.push(spot);
  }
  return placed;
}

/**
 * Return a short label for an event, or "" if it gets no flag.
 *
 * @param {RunEvent} event
 */
export function eventText(event) {
  if (event.kind === "checkpoint") return event.data?.complete === false ? "" : "checkpoint";
  if (event.kind === "phase" || event.kind === "eval" || event.kind === "evaluate") {
    return String(event.data?.name ?? event.data?.phase ?? "eval").slice(0, 24);
  }
  if (event.kind === "expect") {
    return `expected: ${String(event.data?.what ?? event.data?.kind ?? "change").slice(0, 24)}`;
  }
  return "";
}

/**
 * Return the steps for which a script announced a change with `run.expect("lr-restart", steps=[1000, 3000])`,
 * once for all ranks.
 *
 * @param {RunEvent[]} events
 * @returns {{ severity: "expected", from: number, to: number }[]}
 */
export function expectedSpans(events) {
  /** @type {Map<string, { severity: "expected", from: number, to: number }>} */
  const spans = new Map();
  for (const { kind, data, step } of events) {
    if (kind !== "expect") continue;
    const steps = [data?.steps].flat().filter((each) => typeof each === "number");
    const from = Number(steps[0] ?? step ?? NaN);
    const to = Number(steps[steps.length - 1] ?? from);
    if (from < to) spans.set(`${from} ${to}`, { severity: "expected", from, to });
  }
  return [...spans.values()];
}

/**
 * @param {Alert[]} alerts
 * @param {RunEvent[]} events
 * @param {string | null} chosen the alert being read; its flag is always placed
 * @returns {Flag[]}
 */
export function flagsOf(alerts, events, chosen) {
  const heights = { critical: 30, warning: 20, info: 10 };
  const ofAlerts = alerts
    .filter((alert) => alert.state !== "pending" && alert.onset_step !== null)
    .map((alert) => ({
      step: Number(alert.onset_step),
      text: alert.rule,
      severity: alert.severity,
      weight: heights[alert.severity] + (isOver(alert) ? 0 : 5) + (alert.id === chosen ? 100 : 0),
      key: alert.id,
    }));
  const ofEvents = events
    .filter((event) => event.step !== null && eventText(event))
    .map((event) => ({
      step: Number(event.step),
      text: eventText(event),
      severity: /** @type {const} */ (""),
      weight: 1,
      key: `event-${event.id}`,
    }));
  return [...ofAlerts, ...ofEvents];
}
