/** Failing deliveries, on every page: a count in the header, and a note for each new failure. */

import { el, refill, say } from "../../browser/dom.js";
import { withoutEnd } from "../../lib/format.js";
import { icon } from "../icons.js";

const EVERY_MS = 30_000;
/** Channels whose failure the user has read in this tab. */
const READ = "tocsin.trouble";

/**
 * Return the count to show; 0 if all is well.
 *
 * @param {DeliveryStatus | null} news
 */
const failingCount = (news) => (news && news.failing.length ? news.failing.length : 0);

/**
 * @param {HTMLElement} board the counts in the header
 * @param {HTMLElement} host for floating notes
 * @param {App} app
 */
export function deliveryBadge(board, host, app) {
  const number = el("b", {}, "0");
  const badge = el(
    "a.badge.lit-warning.undelivered",
    { href: "/deliveries?state=failed,waiting", hidden: true },
    icon("undelivered"),
    number,
    " ",
    el("span.txt", {}, "undelivered"),
  );
  const text = el("span.grow");
  const strip = note(text, () => keep(known));
  let known = "";
  board.append(badge);
  host.append(strip);
  const receive = (/** @type {DeliveryStatus} */ news) => {
    const count = failingCount(news);
    const reason = news.trouble || `Notifications are not delivered by ${news.failing.join(", ")}`;
    const words = count ? `${withoutEnd(reason, ". \n")}.` : "";
    badge.hidden = !count;
    say(number, String(count));
    badge.setAttribute("aria-label", `${count} undelivered. ${words}`);
    badge.title = words;
    const fresh = news.failing.join("\n");
    if (!count) strip.hidden = true;
    else if (fresh !== known) {
      refill(text, words);
      strip.hidden = fresh === kept();
    } else if (!strip.hidden) say(text, words);
    known = fresh;
  };
  app.live.onMessage("deliveries", (frame) => receive(frame));
  const look = () =>
    void app.alerting
      .health()
      .then(({ notifications }) => {
        if (notifications) receive({ ...notifications, trouble: notifications.trouble ?? "" });
      })
      .catch(() => {});
  setInterval(() => {
    if (!app.live.state.online) look();
  }, EVERY_MS);
}

/**
 * @param {HTMLElement} text
 * @param {() => void} dismissed
 */
function note(text, dismissed) {
  const strip = el(
    "div.deliverynote",
    { role: "alert", hidden: true },
    icon("warning"),
    text,
    el("a.link", { href: "/deliveries?state=failed,waiting" }, "Show"),
    el(
      "button.btn.bare",
      {
        type: "button",
        "aria-label": "Dismiss",
        onclick: () => {
          strip.hidden = true;
          dismissed();
        },
      },
      icon("close"),
    ),
  );
  return strip;
}

/** @param {string} failing */
function keep(failing) {
  try {
    sessionStorage.setItem(READ, failing);
  } catch {
    /* until the next page load */
  }
}

function kept() {
  try {
    return sessionStorage.getItem(READ);
  } catch {
    return null;
  }
}
