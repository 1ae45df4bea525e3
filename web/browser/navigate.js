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
