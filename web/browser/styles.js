/** The style sheets of other pages, which the HTML of the first one lists as disabled. */

/** @type {Promise<unknown> | null} */
let loading = null;

/** Load them, before another page is shown. */
export function allStyles() {
  const left = /** @type {NodeListOf<HTMLLinkElement>} */ (
    document.querySelectorAll('link[rel="stylesheet"][disabled]')
  );
  loading ??= Promise.all([...left].map(load)).catch((error) => {
    loading = null; // the next page tries again
    throw error;
  });
  return loading;
}

/** @param {HTMLLinkElement} link */
function load(link) {
  return new Promise((done, failed) => {
    link.onload = done;
    link.onerror = (event) => {
      link.disabled = true;
      failed(event);
    };
    link.disabled = false;
  });
}
