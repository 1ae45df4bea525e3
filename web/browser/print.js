/**
 * Charts on paper: nothing may lay them out anew while a page is printed, so they keep the screen's width and
 * are scaled as a whole.
 */

/** What an upright page, A4 or Letter, has between its margins. */
const PAPER_PX = 700;

/**
 * Tells the style sheet, before each print, how wide `host` is and by how much it is to shrink.
 *
 * @param {HTMLElement} host
 * @param {HTMLElement} [measured] what has its width, where the host has no box
 * @returns {() => void} ends that
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
