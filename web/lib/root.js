/**
 * The path under which a proxy serves tocsin. The pages use addresses that begin at "/"; this module converts
 * them to and from those of the browser.
 */

/** "" or "/tocsin": derived from the address of this file, so that the pages need no setting. */
const ROOT = rootOf(import.meta.url);

/**
 * The root of a site that serves this file at `address`, which may contain a version.
 *
 * @param {string} address
 */
export function rootOf(address) {
  const { protocol, pathname } = new URL("..", address);
  return protocol.startsWith("http") ? pathname.replace(/(\/assets\/web-\w+)?\/+$/, "") : "";
}

/**
 * An address of tocsin as the browser needs it; other addresses are unchanged.
 *
 * @param {string} address
 * @param {string} [root]
 */
export const outside = (address, root = ROOT) => (/^\/(?![/\\])/.test(address) ? root + address : address);

/**
 * The path of a tocsin page for a path in the browser; "" for other sites on this host.
 *
 * @param {string} path
 * @param {string} [root]
 */
export function inside(path, root = ROOT) {
  if (path === root) return "/";
  return path.startsWith(`${root}/`) ? path.slice(root.length) : "";
}
