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
  const node = el(
    "nav.subnav",
    { "aria-label": "Alerting" },
    ...PAGES.map(([href, text]) =>
      el("a", { href, "aria-current": inside(location.pathname) === href ? "page" : null }, text),
    ),
  );
  // With large text not all fit on a phone: the open page's link is scrolled into sight once it is drawn.
  requestAnimationFrame(() => {
    const open = node.querySelector("[aria-current]");
    open?.scrollIntoView({ inline: "center", block: "nearest" });
  });
  return node;
}
