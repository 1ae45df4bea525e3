/** New critical incidents in a corner, until dismissed or resolved; at most the newest three. */

import { el } from "../../browser/dom.js";
import { isOpen } from "../../lib/alerts/attention.js";
import { incidentId } from "../../lib/alerts/incidents.js";
import { powers, ruleTitle } from "../../lib/format.js";
import { alertAddress } from "../../lib/route.js";
import { icon } from "../icons.js";

const MOST = 3;

/**
 * @param {HTMLElement} host
 * @param {import("../../data/alertstore.js").AlertStore} alerts
 */
export function toasts(host, alerts) {
  const list = el("div.toasts", { role: "alert", "aria-label": "New critical alerts" });
  host.append(list);
  alerts.onChange((fired) => {
    const open = new Set(alerts.all().filter(isOpen).map(incidentId));
    for (const card of /** @type {HTMLElement[]} */ ([...list.children])) {
      if (!open.has(String(card.dataset.incident))) card.remove();
    }
    if (!fired) return;
    list.append(toast(fired));
    while (list.children.length > MOST) list.firstElementChild?.remove();
  });
}

/** @param {Alert} alert */
function toast(alert) {
  const card = el(
    "div.toast",
    { "data-incident": incidentId(alert) },
    el("span.is-critical", {}, icon("critical", "critical")),
    el(
      "div.grow",
      {},
      el("div", {}, el("b", {}, ruleTitle(alert.rule)), " ", el("span.muted", {}, alert.run_name)),
      el("p.soft", {}, powers(alert.summary)),
      el(
        "a.link",
        {
          href: alertAddress(alert),
          onclick: () => card.remove(),
        },
        "Show",
      ),
    ),
    el(
      "button.btn.bare",
      { type: "button", "aria-label": "Dismiss", onclick: () => card.remove() },
      icon("close"),
    ),
  );
  return card;
}
