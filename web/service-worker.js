/**
 * The service worker: shows pushed notifications, with no page open, and says so if the server cannot be
 * reached while a page is opened.
 *
 * Served at the root of tocsin, which is its scope: its address must not contain the version of the pages.
 * It keeps no page and no data, so pages are always those of the server.
 */

const worker = /** @type {ServiceWorkerScope} */ (/** @type {unknown} */ (self));

/** The path under which tocsin is served, such as "/tocsin"; "" at the root of its host. */
const ROOT = new URL(worker.registration.scope).pathname.slice(0, -1);
const CACHE = `tocsin${ROOT}`;
const STYLE = `${ROOT}/assets/login.css`;
const ICON = `${ROOT}/icon.svg`;
/** Addresses that are no pages, although a browser can open them. */
const NO_PAGES = ["/api/", "/assets/", "/login", "/logout", "/ack", "/metrics"];
/** Responses of a proxy whose backend is down. */
const DOWN = [502, 503, 504];
const RETRY_S = 5;
/** An open page shows a notification too. The second one within this time replaces the first silently. */
const SAME_MS = 10_000;
const FORM = { "content-type": "application/x-www-form-urlencoded" };
const JSON_BODY = { "content-type": "application/json" };

const OFFLINE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="${RETRY_S}">
<title>tocsin · offline</title>
<link rel="icon" type="image/svg+xml" href="${ICON}">
<link rel="stylesheet" href="${STYLE}">
</head>
<body>
<main>
<h1>tocsin</h1>
<p role="status">The server cannot be reached. This page tries again every ${RETRY_S} seconds.</p>
<p>Training processes are not affected: they buffer their records on disk.</p>
</main>
</body>
</html>
`;

/** @type {PushedMessage} */
const UNREADABLE = { title: "tocsin", body: "An alert fired.", tag: "", path: "/alerts", open: 1, ack: "" };

worker.addEventListener("install", (event) => {
  event.waitUntil(keepOfflineFiles());
  void worker.skipWaiting();
});

worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode === "navigate" && request.method === "GET") {
    if (isPage(request.url)) event.respondWith(pageOf(request));
  } else if (request.url.endsWith(STYLE) || request.url.endsWith(ICON)) {
    event.respondWith(fetch(request).catch(() => keptOf(request)));
  }
});

/** Pushes are shown one after another: Chromium may drop one that is shown while others are listed. */
let showing = Promise.resolve();

worker.addEventListener("push", (event) => {
  const message = event.data?.json() ?? UNREADABLE;
  showing = showing.catch(() => {}).then(() => show(message));
  event.waitUntil(showing);
});

worker.addEventListener("notificationclick", (event) => {
  const { notification, action } = event;
  notification.close();
  event.waitUntil(action === "acknowledge" ? acknowledge(notification) : openPage(notification.data.path));
});

worker.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(subscribeAgain(event)));

/** @param {PushedMessage} message */
async function show({ title, body, tag, path, open, ack }) {
  void navigator.setAppBadge?.(open).catch(() => {});
  const now = Date.now();
  const shown = await worker.registration.getNotifications({ tag });
  const actions = [{ action: "open", title: "Open" }];
  if (ack) actions.push({ action: "acknowledge", title: "Acknowledge" });
  const options = {
    body,
    tag,
    actions,
    icon: `${ROOT}/icon-192.png`,
    badge: `${ROOT}/icon-badge-96.png`,
    renotify: !shown.some(({ data }) => now - data?.at < SAME_MS),
    data: { path, ack, at: now },
  };
  await worker.registration.showNotification(title, options);
}

/**
 * Show a page of tocsin: in the tab that has it or in another open one, else in a new one.
 *
 * @param {string} path
 */
async function openPage(path) {
  const address = new URL(ROOT + path, worker.location.origin).href;
  const tabs = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const ours = tabs.filter(({ url }) => isPage(url));
  const tab = ours.find(({ url }) => url === address) ?? ours[0];
  await (tab ? tab.focus() : worker.clients.openWindow(address));
  if (tab && tab.url !== address) tab.postMessage({ type: "open", path });
}

/**
 * Acknowledge an incident by the signed link in its message, which needs no login.
 *
 * @param {Notification} notification
 */
async function acknowledge({ title, tag, data }) {
  const request = { method: "POST", headers: FORM, body: data.ack };
  const response = await fetch(`${ROOT}/ack`, request).catch(() => null);
  if (response?.ok) return;
  const body = response
    ? "The link has expired. Open the incident to acknowledge it."
    : "The server cannot be reached. Try again later, or open the incident.";
  await worker.registration.showNotification(`Not acknowledged: ${title}`, { body, tag, data });
}

/**
 * The push service replaced the subscription of this browser: tell the server.
 *
 * @param {PushSubscriptionChange} event
 */
async function subscribeAgain({ newSubscription, oldSubscription }) {
  const options = oldSubscription?.options;
  const found = newSubscription ?? (options && (await worker.registration.pushManager.subscribe(options)));
  if (!found) return;
  const { endpoint, keys } = found.toJSON();
  const body = JSON.stringify({ endpoint, keys });
  await fetch(`${ROOT}/api/v1/push/subscriptions`, { method: "PUT", headers: JSON_BODY, body });
}

/**
 * Return whether an address is that of a page of tocsin.
 *
 * @param {string} address
 */
function isPage(address) {
  const path = new URL(address).pathname.slice(ROOT.length);
  return address.startsWith(worker.registration.scope) && !NO_PAGES.some((each) => path.startsWith(each));
}

async function keepOfflineFiles() {
  const cache = await caches.open(CACHE);
  await cache.addAll([STYLE, ICON]);
}

/** @param {Request} request */
async function pageOf(request) {
  try {
    const response = await fetch(request);
    return DOWN.includes(response.status) ? offline() : response;
  } catch {
    return offline();
  }
}

function offline() {
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'",
  };
  return new Response(OFFLINE, { status: 503, headers });
}

/** @param {Request} request */
async function keptOf(request) {
  const cache = await caches.open(CACHE);
  return (await cache.match(request)) ?? Response.error();
}
