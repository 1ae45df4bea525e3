/** The steps that the charts of an incident show. */

/** The least steps before and after the onset. */
const LEAST = 150;
/** Times the steps until the incident was detected. */
const DETECTION = 3;
const WIDER = 4;

/**
 * @param {import("../alerts/incidents.js").Incident} incident
 * @returns {[number, number]} in steps; the first two hundred if the onset is unknown
 */
export function onsetWindow({ onset_step: onset, alerts }) {
  if (onset === null) return [0, 2 * LEAST];
  const fired = Math.max(onset, ...alerts.map((alert) => alert.fired_step ?? onset));
  const detected = Math.min(...alerts.map((alert) => alert.fired_step ?? onset));
  const half = Math.max(LEAST, DETECTION * Math.max(0, detected - onset));
  return [Math.max(0, onset - half), Math.max(onset + half, Math.min(fired, onset + 4 * half))];
}

/**
 * Return a wider window, or null if it shows the whole run.
 *
 * @param {[number, number]} range
 * @param {number} last the last step of the run
 * @returns {[number, number] | null}
 */
export function wider([from, to], last) {
  if (from <= 0 && to >= last) return null;
  const half = ((to - from) / 2) * WIDER;
  const middle = (from + to) / 2;
  return [Math.max(0, middle - half), Math.min(middle + half, Math.max(last, to))];
}
