/** Which steps a run page shows, as the address holds it: ?from=&to=, ?follow=, ?at=, ?alert=. */

/** @typedef {{ from: number | null, to: number | null, follow: number | null, at: number | null, alert: string | null }} View */

/** @param {string | null} text */
const step = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

/** @param {string} search @returns {View} what cannot be read is left out */
export function readView(search) {
  const asked = new URLSearchParams(search);
  const from = step(asked.get("from")), to = step(asked.get("to")), follow = step(asked.get("follow"));
  const zoom = from !== null && to !== null && to > from;
  return { from: zoom ? from : null, to: zoom ? to : null, follow: !zoom && follow !== null && follow >= 10 ? Math.round(follow) : null, at: step(asked.get("at")), alert: asked.get("alert") };
}

/** @param {View} view @returns {string} "" or "?from=…" */
export function writeView(view) {
  const pairs = /** @type {[string, string][]} */ ([]);
  if (view.from !== null && view.to !== null) pairs.push(["from", String(round(view.from))], ["to", String(round(view.to))]);
  else if (view.follow !== null) pairs.push(["follow", String(view.follow)]);
  if (view.at !== null) pairs.push(["at", String(Math.round(view.at))]);
  if (view.alert !== null) pairs.push(["alert", view.alert]);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** @param {number} v three decimals hold a window of a few steps */
const round = (v) => Math.round(v * 1000) / 1000;

/** Share of the run that stays free at the right, so that new steps come in without moving every tick. */
const HEADROOM = 0.04;

/** The steps to draw. `home` is what the whole run took up last; it grows by `HEADROOM` only when the newest step passes its end. @param {View} view @param {number | null} first @param {number | null} last @param {[number, number] | null} home @returns {{ range: [number, number], home: [number, number] }} */
export function stepRange(view, first, last, home) {
  const a = first ?? 0, b = Math.max(last ?? 0, a + 1);
  const whole = home && home[0] === a && home[1] >= b && home[1] <= b + (b - a) * HEADROOM * 2 + 1 ? home : /** @type {[number, number]} */ ([a, b + Math.max(1, Math.ceil((b - a) * HEADROOM))]);
  if (view.from !== null && view.to !== null) return { range: [view.from, view.to], home: whole };
  if (view.follow !== null) return { range: [Math.max(a, b - view.follow), b + Math.max(1, view.follow * 0.02)], home: whole };
  return { range: whole, home: whole };
}

/** A round number of steps to follow, near `span`. @param {number} span */
export function followSize(span) {
  const power = 10 ** Math.floor(Math.log10(Math.max(span, 50)));
  return Math.max(50, Math.round(span / power) * power || power);
}
