/** Alerts of all runs as one list: what rings, what waits, what has passed. A click goes to the moment. */

import { byGravity, isOpen } from "../lib/attention.js";
import { el, refill, say } from "../lib/dom.js";
import { counted, int, moment, powers, ruleTitle } from "../lib/format.js";
import { runAddress } from "../lib/route.js";
import { standing } from "../parts/diagnosis.js";
import { icon } from "../parts/icons.js";

const GROUPS = [
  { title: "Now", note: "firing or recovering", holds: isOpen },
  { title: "Waiting", note: "true, but not yet long enough to ring", holds: (/** @type {Alert} */ alert) => alert.state === "pending" },
  { title: "Resolved", note: "newest first", holds: (/** @type {Alert} */ alert) => alert.state === "resolved" },
];
const MOST = 100;

/** @param {Alert} alert @param {number} now */
function row(alert, now) {
  const done = alert.state === "resolved";
  return el("a.al", { href: runAddress(alert.run_id, { at: alert.onset_step, alert: alert.id }), class: done ? "done" : "", "data-alert": alert.id },
    el("span.edge"), el("span", { class: done ? "" : `is-${alert.severity}` }, icon(alert.severity, alert.severity)),
    el("div.what", {}, el("div.row", {}, el("span.strong", {}, ruleTitle(alert.rule)), el("span.muted.clip", {}, `${alert.run_name} · ${alert.project}`)), el("p", {}, powers(alert.summary))),
    el("div.when.fired", {}, el("div.nowrap", {}, `${int(alert.onset_step)} → ${int(alert.fired_step)}`), el("div.micro.nowrap", {}, "onset → rang")),
    el("div.when", { title: moment(alert.fired_ms ?? alert.onset_ms) }, el("div.standing", {}, standing(alert, now))));
}

/** @type {import("../main.js").OpenPage} */
export function alertsPage(app, main) {
  app.title("Alerts");
  const count = el("span.muted", {}, "–"), list = el("section.card.listing", { "aria-label": "Alerts" });
  main.append(el("div.pagehead", {}, el("h1", {}, "Alerts"), count), list);
  const draw = () => {
    const all = app.alerts.all().sort(byGravity), now = app.clock.now();
    say(count, `${counted(all.filter(isOpen).length, "open alert")} · ${int(all.filter((alert) => alert.state === "pending").length)} pending`);
    const parts = GROUPS.map(({ title, note, holds }) => ({ title, note, found: all.filter(holds) })).filter((group) => group.found.length);
    refill(list, ...parts.flatMap(({ title, note, found }) => [el("h2.grouphead", {}, title, el("span.muted", {}, int(found.length)), el("span.micro", {}, note)), ...found.slice(0, MOST).map((alert) => row(alert, now))]),
      parts.length ? null : el("p.pad.muted", {}, app.alerts.loaded ? "No alert has ever rung here. Rules watch every step of every run." : "–"));
  };
  const stop = app.alerts.onChange(draw), ticker = setInterval(draw, 30_000);
  draw();
  return { close: () => { stop(); clearInterval(ticker); }, moved: () => true };
}
