/** All icons. The shape carries the meaning; the color only repeats it. */

import { svg } from "../browser/dom.js";

/** @type {Record<string, string>} path data, 16 x 16 */
const SHAPES = {
  critical: "M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2z",
  warning: "M8 1.8 15 14H1z",
  info: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2z",
  running: "M1.5 8.5h3l1.6-4.6 2.9 8.2 1.9-5.2.7 1.6h2.9",
  stalled: "M4 2h8M4 14h8M5 2c0 3.6 6 4.4 6 12M11 2c0 3.6-6 4.4-6 12",
  lost: "M8 2a6 6 0 0 1 5.2 3M14 8a6 6 0 0 1-2.2 4.6M8 14a6 6 0 0 1-5.2-3M2 8a6 6 0 0 1 2.2-4.6",
  finished: "M4 14V2h8.5l-2.2 3.4 2.2 3.4H4",
  failed: "M2.5 2.5h11v11h-11zM5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8",
  waiting: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 4.8V8l2.3 1.6",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.4 10.4 14 14",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  down: "M8 2v8M4.6 6.8 8 10.2l3.4-3.4M2.5 13.5h11",
  check: "M2.5 8.5 6.3 12.2 13.5 4.2",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  offline: "M2 2l12 12M3.2 7.2a7 7 0 0 1 2-1.4M12.8 7.2a7 7 0 0 0-4-2M5.5 10a3.6 3.6 0 0 1 3.2-1M8 12.6h.01",
  mute: "M3 6.2h2.4L9 3v10L5.4 9.8H3zM11.2 6l3 4M14.2 6l-3 4",
  sound: "M3 6.2h2.4L9 3v10L5.4 9.8H3zM11.4 5.6a3.4 3.4 0 0 1 0 4.8M13 3.8a6 6 0 0 1 0 8.4",
  light:
    "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 .9v1.8M8 13.3v1.8M.9 8h1.8M13.3 8h1.8" +
    "M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13",
  dark: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  system: "M2 3h12v8H2zM5.5 14h5M8 11v3",
  fleet: "M2 3.5h12M2 8h12M2 12.5h12",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  pin: "M5.5 2h5M6.2 2.2v4.3L4 9.5h8L9.8 6.5V2.2M8 9.5V14",
  compare: "M2 12.5 6 6l3.5 4L14 3M2 8.5l4 3.5 3.5-6L14 12",
  grip: "M6 4h.01M10 4h.01M6 8h.01M10 8h.01M6 12h.01M10 12h.01",
  box: "M2 3h12v3H2zM3 6v7h10V6M6.3 9h3.4",
  eye: "M1.5 8C4 4 12 4 14.5 8 12 12 4 12 1.5 8zM8 6.4a1.6 1.6 0 1 1 0 3.2 1.6 1.6 0 0 1 0-3.2z",
  mail: "M1.8 3.5h12.4v9H1.8zM2 4l6 4.6L14 4",
  undelivered: "M1.8 3.5h12.4v6M1.8 3.5v9h6.4M2 4l6 4.6L14 4M10.5 10.8l4 4M14.5 10.8l-4 4",
  rules: "M2 4h7M12 4h2M2 12h2M7 12h7M10.5 2.4v3.2M5.5 10.4v3.2M2 8h4M9 8h5M7.5 6.4v3.2",
  gear:
    "M8 5.4a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2zM8 1.6v2M8 12.4v2M1.6 8h2M12.4 8h2" +
    "M3.5 3.5l1.4 1.4M11.1 11.1l1.4 1.4M12.5 3.5l-1.4 1.4M4.9 11.1l-1.4 1.4",
  plus: "M8 2.5v11M2.5 8h11",
  pen: "M3 13l.7-3L11 2.7 13.3 5 6 12.3zM9.4 4.3l2.3 2.3",
  trash: "M2.5 4h11M6 4V2.3h4V4M4 4l.7 9.5h6.6L12 4M6.6 6.5v4.6M9.4 6.5v4.6",
  bell: "M2 12.2c3 0 2.8-9 6-9s3 9 6 9zM8 14.2h.01",
};
const FILLED = new Set(["critical", "warning"]);
/** @type {Record<string, string>} the inner mark of a severity's shape */
const INNER = { info: "M8 7.2v3.6M8 4.9v.1", warning: "M8 6v4M8 12v.1", critical: "M8 4.3v4.4M8 11.4v.1" };

/**
 * @param {string} name
 * @param {string} [label] given: an image with that name; absent: decorative
 */
export function icon(name, label) {
  const names = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return svg(
    "svg",
    { viewBox: "0 0 16 16", class: `icon icon-${name}`, ...names },
    svg("path", { d: SHAPES[name] ?? SHAPES.info, class: FILLED.has(name) ? "fill" : null }),
    INNER[name] ? svg("path", { d: INNER[name], class: FILLED.has(name) ? "bang" : null }) : null,
  );
}

/** The logo: a loss spike shaped like a bell, with a non-finite point as its clapper. */
export function wordmark() {
  return svg(
    "svg",
    { viewBox: "0 0 96 24", class: "wordmark", role: "img", "aria-label": "tocsin" },
    svg("path", { class: "bellcurve", d: "M1 17.5h3.6C9 17.5 8.4 4.5 12 4.5s3 13 7.4 13H23" }),
    svg("path", { class: "clapper", d: "M12 20.6v.01" }),
    svg("path", {
      class: "letters",
      d: [
        "M33 6.2v9q0 2.3 2.3 2.3h1.2M30.4 9.4h6", // t
        "M44.6 9.2a4.15 4.15 0 1 0 .01 0z", // o
        "M59.6 10.6a4.15 4.15 0 1 0 0 5.5", // c
        "M69.6 10.5q-1-1.3-2.9-1.3-2.7 0-2.7 2 0 1.6 2.8 2.1t2.9 2.2q0 2-2.9 2-2.2 0-3.3-1.5", // s
        "M75 9.4v8.1", // i, without its dot
        "M80 17.5v-8.1M80 12.6q.6-3.4 3.9-3.4 3.5 0 3.5 3.8v4.5", // n
      ].join(""),
    }),
    svg("path", { class: "dot", d: "M75 5.9v.01" }),
  );
}
