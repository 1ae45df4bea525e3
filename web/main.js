/** Starts the app: one API client, one socket, one alert store, and the page for the address. */

import { registerServiceWorker, setBadge } from "./browser/serviceworker.js";
import { playAlert, wakeOnGesture } from "./browser/sound.js";
import { followSystem } from "./browser/theme.js";
import { pageHeader } from "./components/header/header.js";
import { notify } from "./components/header/notify.js";
import { offlineStrip } from "./components/header/offline.js";
import { finder } from "./components/header/finder.js";
import { storingStrip } from "./components/header/storing.js";
import { toasts } from "./components/header/toasts.js";
import { loginNotice, notice } from "./components/notice.js";
import { AlertStore } from "./data/alertstore.js";
import { AlertingApi } from "./data/alertingapi.js";
import { Api } from "./data/api.js";
import { ApiError } from "./data/http.js";
import { Clock } from "./data/clock.js";
import { Live } from "./data/live.js";
import { MarkStore } from "./data/markstore.js";
import { tabTitle, badgeCounts } from "./lib/alerts/attention.js";
import { incidentsOf } from "./lib/alerts/incidents.js";
import { outside } from "./lib/root.js";
import { router } from "./router.js";

/** Marks also change with time, because silences end. Visible pages reload them this often. */
const MARKS_MS = 15_000;

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @returns {WebSocket} */
function openSocket() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(`${scheme}//${location.host}${outside("/api/v1/live")}`);
}

/**
 * The title and icon of the tab show the page and whether alerts fire; an installed app shows their number.
 *
 * @param {AlertStore} alerts
 */
function titles(alerts) {
  let page = "";
  const icon = document.querySelector('link[rel="icon"]');
  const write = () => {
    const { firing } = badgeCounts(incidentsOf(alerts.all()), () => false);
    document.title = tabTitle(page, firing);
    const now = icon?.getAttribute("href") ?? "";
    const shape = now.slice(0, now.lastIndexOf("/") + 1) + (firing ? "icon-firing.svg" : "icon.svg");
    if (now !== shape) icon?.setAttribute("href", shape); // each change is a request
    setBadge(firing);
  };
  alerts.onChange(write);
  return (/** @type {string} */ text) => {
    page = text;
    write();
  };
}

async function start() {
  const api = new Api((input, init) => fetch(outside(input), init));
  const session = await signIn(api);
  if (!session) return;
  const live = new Live({
    open: openSocket,
    now: Date.now,
    later: (run, ms) => setTimeout(run, ms),
    cancel: (timer) => clearTimeout(timer),
    random: Math.random,
  });
  const alerting = new AlertingApi(api);
  const alerts = new AlertStore(alerting);
  const clock = new Clock();
  const marks = new MarkStore(alerting);
  const app = { api, alerting, live, alerts, marks, clock, session, title: titles(alerts) };
  followSystem();
  wakeOnGesture();
  void registerServiceWorker();
  pageHeader(byId("header"), byId("foot"), byId("floats"), app, finder(app));
  offlineStrip(byId("floats"), live, clock);
  storingStrip(byId("floats"), live);
  toasts(byId("floats"), alerts);
  alerts.onChange((fired) => {
    if (fired) playAlert();
  });
  await router(app, byId("main"))();
  dispatchEvent(new CustomEvent("pagestarted")); // heard by first.js
  listen(app);
}

/** @param {App} app */
function listen(app) {
  const { live, alerts, marks, clock } = app;
  live.onAlert((alert) => {
    alerts.take(alert);
    marks.stir();
  });
  live.onMessage("changed", ({ what }) => {
    if (what !== "channels") marks.stir();
  });
  live.onReconnect(() => marks.stir());
  setInterval(() => {
    if (!document.hidden) marks.stir();
  }, MARKS_MS);
  notify(app);
  live.onBeat((beat) => clock.receive(beat.now_ms));
  const reload = () => void alerts.load().catch(() => {});
  live.onReconnect(reload);
  addEventListener("online", () => live.hurry());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) live.hurry();
  });
  live.start();
  reload();
}

/**
 * Ask who is logged in until the server responds.
 * Return null if nobody is logged in; the page then explains how to log in.
 *
 * @param {Api} api
 * @returns {Promise<Session | null>}
 */
async function signIn(api) {
  for (;;) {
    try {
      return await api.session();
    } catch (error) {
      const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
      byId("main").classList.remove("is-opening");
      byId("main").replaceChildren(
        refused
          ? loginNotice()
          : notice(
              "The server does not respond",
              String(/** @type {Error} */ (error).message),
              "This page tries again every two seconds.",
            ),
      );
      if (refused) return null;
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}

void start();
