/** Addresses of the pages. */

/** @param {string} path @returns {{ page: "fleet" | "run" | "alerts" | "compare" | "missing", id: string }} */
export function match(path) {
  const clean = path.replace(/\/+$/, "") || "/";
  if (clean === "/") return { page: "fleet", id: "" };
  if (clean === "/alerts") return { page: "alerts", id: "" };
  if (clean === "/compare") return { page: "compare", id: "" };
  const run = /^\/runs\/([^/]+)$/.exec(clean);
  return run ? { page: "run", id: decode(run[1]) } : { page: "missing", id: "" };
}

/** @param {string} text */
function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/** @param {string} id @param {{ at?: number | null, alert?: string }} [moment] */
export function runAddress(id, moment = {}) {
  const asked = new URLSearchParams();
  if (moment.at !== null && moment.at !== undefined) asked.set("at", String(moment.at));
  if (moment.alert) asked.set("alert", moment.alert);
  const text = asked.toString();
  return `/runs/${encodeURIComponent(id)}${text ? `?${text}` : ""}`;
}
