/**
 * Printing of charts: they keep their screen width and are scaled as a whole, because a layout change during
 * printing would break them.
 */

/** Printable width of a portrait page, A4 or Letter. */
const PAPER_PX = 700;

/**
 * Before each print, pass the width of `host` and its scale to the style sheet.
 *
 * @param {HTMLElement} host
 * @param {HTMLElement} [measured] the element to measure if the host has no box
 * @returns {() => void} stops it
 */
export function fitPaper(host, measured = host) {
  const fit = () => {
    const width = measured.offsetWidth;
    if (!width) return;
    host.style.setProperty("--paper-width", `${width}px`);
    host.style.setProperty("--paper-zoom", String(Math.min(1, PAPER_PX / width)));
  };
  host.classList.add("onpaper");
  addEventListener("beforeprint", fit);
  return () => removeEventListener("beforeprint", fit);
}
