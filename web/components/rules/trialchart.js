/** The series of one run with the alerts of a tested rule: as a strip in a row, and larger with numbers. */

import { el, refill, svg } from "../../browser/dom.js";
import { counted, dotted, int, short } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { H, W, shapeOf, stretchesOf } from "../../lib/rules/rulestrip.js";

/** A rule may fire hundreds of times in a run; the rest is counted. */
const MOST_LISTED = 20;

/**
 * @typedef {{ run: TrialRun, layers: Layer[], steps: [number, number], limit: number | null, name: string }}
 *   Drawn name: of the series, or "" if there is none
 */

/** @param {TrialFiring} firing */
const lasted = ({ severity, step, resolved_step: end }) =>
  `${severity} from step ${int(step)} to ${end === null ? "the end" : int(end)}`;

/**
 * @param {Drawn} drawn
 * @param {ReturnType<typeof stretchesOf>} stretches
 * @param {boolean} bad
 */
function inWords({ steps }, stretches, bad) {
  const alerts = stretches.slice(0, 10).map(({ firing }) => lasted(firing));
  const words = alerts.length ? `${counted(stretches.length, "alert")}: ${alerts.join("; ")}` : "no alerts";
  return `Steps ${int(steps[0])} to ${int(steps[1])}, ${words}${bad ? "; contains non-finite values" : ""}`;
}

/** @param {Drawn} drawn */
export function strip(drawn) {
  const { run, layers, steps, limit } = drawn;
  const shape = shapeOf(layers, steps, limit);
  const stretches = stretchesOf(run.firings, steps);
  return svg(
    "svg",
    {
      viewBox: `0 0 ${W} ${H}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": inWords(drawn, stretches, Boolean(shape.bad)),
    },
    ...stretches.map(({ from, to, firing }) =>
      svg("rect", {
        class: `alert ${firing.severity}${firing.healthy ? " healthy" : ""}`,
        x: from * W,
        y: 0,
        width: Math.max(1.5, (to - from) * W),
        height: H,
      }),
    ),
    svg("path", { class: "band", d: shape.band }),
    svg("path", { class: "line", d: shape.line }),
    svg("path", { class: "bad", d: shape.bad }),
    shape.limit === null ? null : svg("path", { class: "limit", d: `M0 ${shape.limit}H${W}` }),
    ...stretches.map(({ from, firing }) =>
      svg(
        "path",
        { class: `mark ${firing.severity}`, d: `M${from * W} 0V${H}` },
        svg("title", {}, `step ${int(firing.step)}: ${firing.summary}`),
      ),
    ),
  );
}

/**
 * The strip, larger: with the ends of both axes, the limit, and each alert as a link to its step.
 *
 * @param {Drawn} drawn
 */
function enlarged(drawn) {
  const { run, layers, steps, limit, name } = drawn;
  const shape = shapeOf(layers, steps, limit);
  const alerts = stretchesOf(run.firings, steps);
  const range = shape.low === null ? "" : `${short(shape.low, 4)} to ${short(shape.high, 4)}`;
  return [
    el(
      "div.micro",
      {},
      dotted(name, range, shape.limit === null || limit === null ? "" : `limit ${short(limit, 4)}`),
    ),
    el("div.strip.is-large", {}, strip(drawn)),
    el("div.micro.trialends", {}, el("span", {}, `step ${int(steps[0])}`), el("span", {}, int(steps[1]))),
    el(
      "ol.trialalerts",
      {},
      ...alerts.slice(0, MOST_LISTED).map(({ firing }) => alertItem(run, firing)),
      alerts.length > MOST_LISTED ? el("li.soft", {}, `and ${int(alerts.length - MOST_LISTED)} more`) : null,
    ),
  ];
}

/**
 * @param {TrialRun} run
 * @param {TrialFiring} firing
 */
function alertItem(run, firing) {
  const at = firing.step ?? firing.onset_step;
  const { resolved_step: end, severity } = firing;
  return el(
    "li",
    {},
    el("a.link", { href: runAddress(run.run, { at }) }, `step ${int(at)}`),
    `: ${severity}, ${end === null ? "open at the end" : `resolved at step ${int(end)}`}`,
    firing.healthy ? el("span.micro", {}, ", on healthy steps") : null,
  );
}

/**
 * Return a button that shows the chart of a row larger, below it.
 *
 * @param {HTMLElement} row
 * @param {Drawn} drawn
 * @param {Set<string>} large the runs whose charts are large, also after the next test
 */
export function enlarge(row, drawn, large) {
  const { run } = drawn.run;
  const place = el("div.triallarge");
  row.append(place);
  const show = () => {
    place.hidden = !large.has(run);
    button.setAttribute("aria-expanded", String(!place.hidden));
    refill(place, ...(place.hidden ? [] : enlarged(drawn)));
  };
  const toggle = () => {
    if (!large.delete(run)) large.add(run);
    show();
  };
  const button = el("button.linkish", { type: "button", onclick: toggle }, "Larger chart");
  show();
  return button;
}
