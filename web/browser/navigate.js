/** Navigation between pages without a reload. */

import { outside } from "../lib/root.js";

/**
 * Follows a link of this site as a click would.
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
