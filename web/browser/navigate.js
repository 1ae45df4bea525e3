/** Navigation between pages without a reload. */

import { outside } from "../lib/root.js";

/**
 * Navigate within the site, as a click on a link would.
 *
 * @param {string} address
 */
export function go(address) {
  const link = document.createElement("a");
  link.href = outside(address);
  link.hidden = true;
  document.body.append(link);
  link.click();
  link.remove();
}

/**
 * Return whether the server found that there is no run or incident at this address when it sent the page. It
 * may exist later, so only the first call after the page was loaded returns it.
 */
export function isAbsent() {
  const said = document.querySelector('meta[name="absent"]');
  said?.remove();
  return said !== null;
}
