/** Downloads: files made by the page, and files from the server. */

import { outside } from "../lib/root.js";

/**
 * Return a file name made of run and series names: letters of any script with their marks, no characters
 * that file systems reject.
 *
 * @param {string[]} parts
 * @param {string} kind
 */
export function fileName(parts, kind) {
  const clean = parts
    .map((part) =>
      part
        .replace(/[^\p{L}\p{M}\p{N}._-]+/gu, "_")
        .replace(/^[._]+|_+$/g, "")
        .slice(0, 60),
    )
    .filter(Boolean);
  return `${clean.join("-") || "tocsin"}.${kind}`;
}

/**
 * Return the bytes of a "data:" address. The Content-Security-Policy doesn't allow fetching one.
 *
 * @param {string} address
 * @returns {Blob}
 */
export function blobOf(address) {
  const comma = address.indexOf(",");
  const head = address.slice(5, comma);
  const body = address.slice(comma + 1);
  const kind = head.split(";")[0];
  if (!head.includes("base64")) return new Blob([decodeURIComponent(body)], { type: kind });
  return new Blob([Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0))], { type: kind });
}

/**
 * @param {string} address
 * @param {string} [name] default: the server's file name
 */
export function hand(address, name = "") {
  const link = document.createElement("a");
  link.href = outside(address);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
export function handBlob(blob, name) {
  const address = URL.createObjectURL(blob);
  hand(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
