/** Geometry of the strip that shows where a rule would have fired in one run. Pure; in a box W x H. */

export const W = 600;
export const H = 56;
const PAD = 5;

/** @typedef {{ from: number, to: number, open: boolean, firing: TrialFiring }} Stretch positions in 0..1 */

/**
 * @param {Layer[]} layers
 * @returns {[number, number] | null} first and last step
 */
export function stepsOf(layers) {
  let low = Infinity;
  let high = -Infinity;
  for (const { x, x1 } of layers) {
    for (let i = 0; i < x.length; i++) {
      low = Math.min(low, x[i]);
      high = Math.max(high, x1[i] ?? x[i]);
    }
  }
  return low <= high ? [low, high] : null;
}

/**
 * Return alerts as ranges of the run, in order; an open alert extends to the end.
 *
 * @param {TrialFiring[]} firings
 * @param {[number, number]} steps
 * @returns {Stretch[]}
 */
export function stretchesOf(firings, [first, last]) {
  const share = (/** @type {number} */ step) =>
    last > first ? Math.min(1, Math.max(0, (step - first) / (last - first))) : 0;
  return firings
    .filter((firing) => firing.step !== null || firing.onset_step !== null)
    .map((firing) => {
      const from = share(firing.step ?? firing.onset_step ?? first);
      const open = firing.resolved_step === null;
      return { from, to: Math.max(from, open ? 1 : share(firing.resolved_step ?? last)), open, firing };
    })
    .sort((a, b) => a.from - b.from);
}

/**
 * Return whether to use a log axis.
 *
 * @param {number} low
 * @param {number} high
 */
const spreads = (low, high) => low > 0 && high > 30 * low;

/**
 * Ticks at the bottom for non-finite values, where there is no line.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} steps
 */
function ticks(layers, [first, last]) {
  let path = "";
  for (const layer of layers) {
    for (let i = 0; i < layer.x.length; i++) {
      if (!(layer.nan[i] + layer.pinf[i] + layer.ninf[i])) continue;
      const middle = (layer.x[i] + (layer.x1[i] ?? layer.x[i])) / 2;
      const share = last > first ? (middle - first) / (last - first) : 0.5;
      path += `M${(share * W).toFixed(1)} ${H - 7}V${H}`;
    }
  }
  return path;
}

/**
 * Line of means, band of extremes, ticks for non-finite values, and the limit if it is in range.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} steps
 * @param {number | null} limit
 */
export function shapeOf(layers, [first, last], limit) {
  const bad = ticks(layers, [first, last]);
  let low = Infinity;
  let high = -Infinity;
  for (const layer of layers) {
    for (let i = 0; i < layer.x.length; i++) {
      if (Number.isFinite(layer.min[i])) low = Math.min(low, layer.min[i]);
      if (Number.isFinite(layer.max[i])) high = Math.max(high, layer.max[i]);
    }
  }
  if (low > high) return { line: "", band: "", bad, limit: null, low: null, high: null };
  const near =
    limit !== null && limit >= low - 2 * (high - low || 1) && limit <= high + 2 * (high - low || 1);
  const bottom = near ? Math.min(low, limit) : low;
  const top = near ? Math.max(high, limit) : high;
  const log = spreads(bottom, top);
  const f = (/** @type {number} */ v) => (log ? Math.log10(v) : v);
  const range = f(top) - f(bottom) || 1;
  const y = (/** @type {number} */ v) => (PAD + (H - 2 * PAD) * (1 - (f(v) - f(bottom)) / range)).toFixed(1);
  const x = (/** @type {number} */ step) =>
    ((last > first ? (step - first) / (last - first) : 0.5) * W).toFixed(1);
  return { ...paths(layers, x, y), bad, limit: near && limit !== null ? Number(y(limit)) : null, low, high };
}

/**
 * @param {Layer[]} layers
 * @param {(step: number) => string} x
 * @param {(v: number) => string} y
 */
function paths(layers, x, y) {
  let line = "";
  let band = "";
  for (const layer of layers) {
    let pen = false;
    let up = "";
    let down = "";
    for (let i = 0; i < layer.x.length; i++) {
      if (!Number.isFinite(layer.mean[i])) {
        pen = false;
        continue;
      }
      const at = x((layer.x[i] + (layer.x1[i] ?? layer.x[i])) / 2);
      line += `${pen ? "L" : "M"}${at} ${y(layer.mean[i])}`;
      up += `${up ? "L" : "M"}${at} ${y(layer.max[i])}`;
      down = `L${at} ${y(layer.min[i])}${down}`;
      pen = true;
    }
    band += up && `${up}${down}Z`;
  }
  return { line, band };
}

/**
 * Return whether the run has none of the series that the rule checks.
 *
 * @param {TrialRun} run
 */
export const isAbsent = (run) => run.series !== undefined && !run.series.length;

/**
 * Name the series that is drawn for a run, and count the others.
 *
 * @param {TrialRun} run
 */
export function captionOf(run) {
  const [first, ...others] = run.series ?? [];
  if (!first) return isAbsent(run) ? "series absent" : "no series to draw";
  return others.length ? `${first} and ${others.length} more` : first;
}

/**
 * @typedef {{ word: string, shape: string, tone: string, text: string, incident?: string }} Outcome
 *   tone: a class of the icon; incident: the id of the one that the text is about
 */

/**
 * Describe how the rule did on a run, as a word and a sentence.
 *
 * @param {TrialRun} run
 * @returns {Outcome}
 */
export function outcomeOf(run) {
  const fired = run.firings.length;
  if (!fired) return silent(run);
  const found = run.incidents.find(({ id }) => run.firings.some((firing) => firing.incident === id));
  const others = run.firings.filter((firing) => !firing.incident);
  const healthy = others.filter((firing) => firing.healthy).length;
  if (found && !others.length) return during(found);
  if (found) {
    const word = `${others.length} of ${fired} outside incidents`;
    return { ...during(found), word, shape: "warning", tone: "is-warning" };
  }
  if (!healthy) {
    return { word: "Matches other alerts", shape: "info", tone: "", text: "other rules also fired there" };
  }
  return {
    word: healthy < fired ? `${healthy} of ${fired} on healthy steps` : "On healthy steps",
    shape: "warning",
    tone: "is-warning",
    text: healthy < fired ? "other rules also fired at the rest" : "no other rule fired there",
  };
}

/**
 * @param {TrialRun} run
 * @returns {Outcome}
 */
function silent(run) {
  if (isAbsent(run)) {
    return { word: "Series absent", shape: "info", tone: "", text: "the run has nothing to check" };
  }
  const [first] = run.incidents;
  return first
    ? { word: "No alerts", shape: "info", tone: "", text: `but: ${first.summary}`, incident: first.id }
    : { word: "No alerts", shape: "check", tone: "", text: "it would not have fired" };
}

/**
 * @param {TrialIncident} incident
 * @returns {Outcome}
 */
function during({ id, severity, summary, own }) {
  const [word, text] = own ? ["Fired then, too", `only this rule: ${summary}`] : ["Real problem", summary];
  return { word, shape: severity, tone: `is-${severity}`, text, incident: id };
}
