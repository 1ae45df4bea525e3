/** Opens the page for the address, and follows links and the browser's history. */

import { allStyles } from "./browser/styles.js";
import { inside } from "./lib/root.js";
import { isPage, match } from "./lib/route.js";

/**
 * Each page's code is loaded when its address is opened.
 *
 * @type {Record<string, () => Promise<OpenPage>>}
 */
const PAGES = {
  fleet: async () => (await import("./pages/fleet.js")).fleetPage,
  run: async () => (await import("./pages/run.js")).runPage,
  incident: async () => (await import("./pages/incident.js")).incidentPage,
  alerts: async () => (await import("./pages/alerts.js")).alertsPage,
  compare: async () => (await import("./pages/compare.js")).comparePage,
  silences: async () => (await import("./pages/silences.js")).silencesPage,
  routes: async () => (await import("./pages/routes.js")).routesPage,
  channels: async () => (await import("./pages/channels.js")).channelsPage,
  deliveries: async () => (await import("./pages/deliveries.js")).deliveriesPage,
  rules: async () => (await import("./pages/rules.js")).rulesPage,
  settings: async () => (await import("./pages/settings.js")).settingsPage,
  missing: async () => (await import("./pages/missing.js")).missingPage,
};

/**
 * Show the page for the address, and follow its changes.
 *
 * @param {App} app
 * @param {HTMLElement} main
 * @returns {() => Promise<void>} shows the page for the current address
 */
export function router(app, main) {
  /** @type {Page | null} */
  let page = null;
  let here = "";
  let turn = 0;

  async function show() {
    const { page: name, id } = match(inside(location.pathname));
    const key = `${name} ${id}`;
    if (key === here && page?.moved?.()) return;
    here = key;
    const mine = ++turn;
    const code = (PAGES[name] ?? PAGES.missing)();
    const [open] = await Promise.all([code, mine > 1 && allStyles()]).catch((error) => {
      app.live.onReconnect(() => mine === turn && location.reload());
      dispatchEvent(new CustomEvent("pagefailed")); // heard by first.js
      if (mine === 1) throw error; // the app does not start
      return [];
    });
    if (!open || mine !== turn) return;
    page?.close();
    main.replaceChildren();
    main.classList.remove("is-opening");
    scrollTo(0, 0);
    page = open(app, main, id);
    dispatchEvent(new CustomEvent("pagechange", { detail: name }));
  }

  document.addEventListener("click", (event) => {
    // The address may hold the view behind the #, so the skip link must not replace it.
    if (/** @type {Element} */ (event.target).closest?.("a.skip")) {
      event.preventDefault();
      return main.focus();
    }
    const link = linkOf(event);
    if (!link) return;
    event.preventDefault();
    if (link.href !== location.href) history.pushState(null, "", link.href);
    void show();
  });
  addEventListener("popstate", () => void show());
  return show;
}

/**
 * Return the link of this site that a plain click targets, if any.
 *
 * @param {MouseEvent} event
 */
function linkOf(event) {
  if (
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  ) {
    return null;
  }
  const link = /** @type {Element} */ (event.target).closest?.("a[href]");
  if (
    !(link instanceof HTMLAnchorElement) ||
    link.origin !== location.origin ||
    link.target ||
    link.hasAttribute("download")
  ) {
    return null;
  }
  return isPage(inside(link.pathname)) && (!link.hash || link.hash.startsWith("#?")) ? link : null;
}
