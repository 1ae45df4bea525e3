/** Links between the alerting pages, at the top of each. */

import { el } from "../../browser/dom.js";
import { inside } from "../../lib/root.js";

const PAGES = /** @type {const} */ ([
  ["/alerts", "Inbox"],
  ["/silences", "Silences"],
  ["/routes", "Routes"],
  ["/channels", "Channels"],
  ["/deliveries", "Deliveries"],
]);

export function subnav() {
  return el(
    "nav.subnav",
    { "aria-label": "Alerting" },
    ...PAGES.map(([href, text]) =>
      el("a", { href, "aria-current": inside(location.pathname) === href ? "page" : null }, text),
    ),
  );
}
