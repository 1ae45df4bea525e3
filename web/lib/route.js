/** Addresses of the pages, relative to the root path of the server (lib/root.js). */

import { withoutEnd } from "./format.js";

/** Pages without an identifier, by their address. */
const PLAIN = /** @type {const} */ ([
  "alerts",
  "compare",
  "rules",
  "silences",
  "routes",
  "channels",
  "deliveries",
  "settings",
]);
/** @typedef {"fleet" | "run" | "incident" | "missing" | typeof PLAIN[number]} PageName */

/**
 * @param {string} path
 * @returns {{ page: PageName, id: string }}
 */
export function match(path) {
  const clean = withoutEnd(path, "/") || "/";
  const plain = PLAIN.find((name) => clean === `/${name}`);
  if (clean === "/") return { page: "fleet", id: "" };
  if (plain) return { page: plain, id: "" };
  const one = /^\/(runs|incidents)\/([^/]+)$/.exec(clean);
  if (!one) return { page: "missing", id: "" };
  return { page: one[1] === "runs" ? "run" : "incident", id: decode(one[2]) };
}

/**
 * Return whether a page answers at this path, rather than the API or a file.
 *
 * @param {string} path
 */
export const isPage = (path) =>
  path === "/" ||
  /^\/(runs|incidents|alerts|compare|rules|silences|routes|channels|deliveries|settings)(\/|$)/.test(path);

/**
 * Longer queries go behind a #, because proxies reject them (nginx above 8 kB) and the fragment is never
 * sent.
 */
const LONGEST = 6_000;

/**
 * @param {string} path
 * @param {string} asked "" or "?…"
 */
export const addressOf = (path, asked) => (asked.length > LONGEST ? `${path}#${asked}` : path + asked);

/**
 * Return the query of an address, wherever it is.
 *
 * @param {{ search: string, hash: string }} place
 */
export const askedIn = ({ search, hash }) => (hash.startsWith("#?") ? hash.slice(1) : search);

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * @param {string} id
 * @param {{ at?: number | null, alert?: string }} [moment]
 */
export function runAddress(id, moment = {}) {
  const asked = new URLSearchParams();
  if (moment.at !== null && moment.at !== undefined) asked.set("at", String(moment.at));
  if (moment.alert) asked.set("alert", moment.alert);
  const text = asked.toString();
  return `/runs/${encodeURIComponent(id)}${text ? `?${text}` : ""}`;
}

/**
 * Return the page of an alert's incident; a pending alert has its run's page at the onset.
 *
 * @param {Alert} alert
 */
export const alertAddress = (alert) =>
  alert.incident
    ? incidentAddress(alert.incident)
    : runAddress(alert.run_id, { at: alert.onset_step, alert: alert.id });

/** @param {string} id */
export const incidentAddress = (id) => `/incidents/${encodeURIComponent(id)}`;
