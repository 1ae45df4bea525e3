/** Tables as CSV (RFC 4180), for files that are opened in a spreadsheet. */

/**
 * @param {unknown[][]} lines
 */
export const csvOf = (lines) => lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");

/**
 * A text that a spreadsheet would run as a formula gets an apostrophe in front.
 *
 * @param {unknown} value
 */
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  const safe = typeof value === "string" && "=+-@\t\r".includes(text[0] ?? " ") ? `'${text}` : text;
  return [",", '"', "\n", "\r"].some((letter) => safe.includes(letter))
    ? `"${safe.replaceAll('"', '""')}"`
    : safe;
}
