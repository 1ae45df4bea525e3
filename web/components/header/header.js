/** The header of every page: navigation, search, counts of open alerts, connection, theme and sound. */

import { el, refill, say } from "../../browser/dom.js";
import { setSound, soundOn } from "../../browser/sound.js";
import { nextTheme, theme } from "../../browser/theme.js";
import { badgeCounts } from "../../lib/alerts/attention.js";
import { incidentsOf } from "../../lib/alerts/incidents.js";
import { clock as clockTime, counted, moment } from "../../lib/format.js";
import { inside, outside } from "../../lib/root.js";
import { icon, wordmark } from "../icons.js";
import { deliveryBadge } from "./deliverybadge.js";

const PAGES = /** @type {const} */ ([
  ["/", "Fleet", "fleet"],
  ["/compare", "Compare", "compare"],
  ["/alerts", "Alerts", "bell"],
  ["/rules", "Rules", "rules"],
  ["/settings", "Settings", "gear"],
]);
/** Pages that belong to another page in the header. */
const UNDER = /** @type {Record<string, string>} */ ({
  runs: "/",
  silences: "/alerts",
  routes: "/alerts",
  channels: "/alerts",
  deliveries: "/alerts",
});
const BADGES = /** @type {const} */ ([
  ["critical", "critical", "critical"],
  ["warning", "warning", "warning"],
  ["stalled", "stalled", "plain"],
  ["lost", "lost", "plain"],
]);
const PULSE_MS = 2_800;

/**
 * @param {HTMLElement} host
 * @param {HTMLElement} foot
 * @param {HTMLElement} floats
 * @param {App} app
 * @param {{ open: () => void, shortcuts: () => void }} finder
 */
export function pageHeader(host, foot, floats, app, finder) {
  const time = el("span.clock.wide-only");
  const links = PAGES.map(([href, text, shape]) => el("a", { href }, icon(shape), text));
  const board = statusBar(app);
  deliveryBadge(board, floats, app);
  host.append(
    el("a.home", { href: "/", "aria-label": "tocsin: fleet" }, wordmark()),
    el("nav", { "aria-label": "Pages" }, ...links),
    board,
    el(
      "div.tools",
      {},
      time,
      el(
        "button.btn.find",
        {
          type: "button",
          "aria-label": "Ctrl K: find a page, a run or a command",
          title: "Find",
          onclick: finder.open,
        },
        icon("search"),
        el("kbd.wide-only", {}, "Ctrl K"),
      ),
      soundButton(),
      themeButton(),
    ),
  );
  const tick = () => {
    say(time, clockTime(app.clock.now()));
    time.title = moment(app.clock.now());
  };
  tick();
  setInterval(tick, 1000);
  addEventListener("pagechange", () => mark(links));
  mark(links);
  footer(foot, app, finder.shortcuts);
}

/** @param {HTMLElement[]} links */
function mark(links) {
  for (const link of links) {
    const place = inside(location.pathname).split("/")[1];
    const home = UNDER[place] ?? `/${place}`;
    if (link.getAttribute("href") === outside(home)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** @param {App} app */
const counts = ({ alerts, marks }) =>
  badgeCounts(incidentsOf(alerts.all()), ({ lead }) => marks.of(lead.id).ack !== null);

/** @param {App} app */
function statusBar(app) {
  const board = el("div.statusbar", {
    role: "status",
    "aria-label": "Incidents of all projects that need attention",
  });
  const lit = BADGES.map(([key, text, style]) => {
    const number = el("b", {}, "0");
    const badge = el(
      "a.badge.calm",
      { href: "/alerts", "aria-label": `0 ${text}` },
      icon(key),
      number,
      " ",
      el("span.txt", {}, text),
    );
    board.append(badge);
    return { key, text, style, number, badge };
  });
  const draw = () => {
    const now = counts(app);
    for (const { key, text, style, number, badge } of lit) {
      say(number, String(now[key]));
      badge.setAttribute("aria-label", `${now[key]} ${text}`);
      badge.classList.toggle(`lit-${style}`, now[key] > 0);
      badge.classList.toggle("calm", now[key] === 0);
    }
  };
  app.alerts.onChange((fired) => {
    draw();
    if (fired) pulse(lit[0].badge);
  });
  app.marks.onChange(draw);
  return board;
}

/**
 * Pulse three times, then stop.
 *
 * @param {HTMLElement} badge
 */
function pulse(badge) {
  badge.classList.remove("new");
  void badge.offsetWidth; // restarts the animation
  badge.classList.add("new");
  setTimeout(() => badge.classList.remove("new"), PULSE_MS);
}

function themeButton() {
  const node = el("button.btn.bare", {
    type: "button",
    onclick: () => {
      nextTheme();
      write();
    },
  });
  const write = () => {
    refill(node, icon(theme()));
    node.setAttribute("aria-label", `Theme: ${theme()}. Change it.`);
    node.title = `Theme: ${theme()}`;
  };
  write();
  addEventListener("themechosen", write);
  return node;
}

function soundButton() {
  const node = el("button.btn.bare", {
    type: "button",
    onclick: () => {
      setSound(!soundOn());
      write();
    },
  });
  const write = () => {
    refill(node, icon(soundOn() ? "sound" : "mute"));
    node.setAttribute("aria-pressed", String(soundOn()));
    node.setAttribute("aria-label", "Sound for new critical alerts");
    node.title = soundOn()
      ? "Sound on: new critical alerts are announced. Click to turn off."
      : "Sound off. Click to announce new critical alerts.";
  };
  write();
  addEventListener("soundchosen", write);
  return node;
}

/**
 * @param {HTMLElement} foot
 * @param {App} app
 * @param {() => void} shortcuts
 */
function footer(foot, app, shortcuts) {
  const state = el("span");
  foot.append(
    el("span.grow", {}, `tocsin ${app.session.version} · logged in as ${app.session.name}`),
    state,
    el(
      "button.linkish.wide-only",
      { type: "button", onclick: shortcuts },
      el("kbd", { "aria-hidden": "true" }, "?"),
      " shortcuts",
    ),
  );
  app.live.onState(({ online, lag_ms }) =>
    say(
      state,
      online ? `live${lag_ms === null ? "" : ` · ${(lag_ms / 1000).toFixed(2)} s behind`}` : "offline",
    ),
  );
  app.alerts.onChange(() => {
    const { firing } = counts(app);
    foot.title = counted(firing, "incident is firing", "incidents are firing");
  });
}
