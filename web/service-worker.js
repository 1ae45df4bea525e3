/**
 * The service worker: says so if the server cannot be reached while a page is opened.
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

worker.addEventListener("install", (event) => {
  event.waitUntil(keepOfflineFiles());
  void worker.skipWaiting();
});

worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const path = new URL(request.url).pathname.slice(ROOT.length);
  if (request.mode === "navigate" && request.method === "GET") {
    if (!NO_PAGES.some((each) => path.startsWith(each))) event.respondWith(pageOf(request));
  } else if (request.url.endsWith(STYLE) || request.url.endsWith(ICON)) {
    event.respondWith(fetch(request).catch(() => keptOf(request)));
  }
});

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
