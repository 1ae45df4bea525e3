/** The style sheets of other pages, which the HTML of the first one lists as disabled. */

/** @type {Promise<unknown> | null} */
let loading = null;

/** Load them, before another page is shown. */
export function allStyles() {
  const left = /** @type {NodeListOf<HTMLLinkElement>} */ (
    document.querySelectorAll('link[rel="stylesheet"][disabled]')
  );
  loading ??= Promise.all([...left].map(load));
  return loading;
}

/** @param {HTMLLinkElement} link */
function load(link) {
  return new Promise((done, failed) => {
    link.onload = done;
    link.onerror = failed;
    link.disabled = false;
  });
}
