/** Loads plotly.js. */

import { outside } from "../lib/root.js";

/** @type {Promise<PlotlyStatic> | null} */
let loading = null;

/**
 * plotly.js is large, so only pages with charts load it.
 *
 * @param {string} version
 */
export function loadPlotly(version) {
  loading ??= new Promise((done, fail) => {
    const style = document.createElement("link");
    Object.assign(style, {
      rel: "stylesheet",
      id: "plotly.js-style-global",
      className: "no-inline-styles",
      href: outside(`/assets/plotly-${version}.css`),
    });
    const script = document.createElement("script");
    script.src = outside(`/assets/plotly-${version}.min.js`);
    script.onload = () => done(/** @type {any} */ (globalThis).Plotly);
    script.onerror = () => {
      loading = null;
      script.remove();
      fail(
        new Error("The chart library (plotly.js) did not load. Reload the page, or check the server's log."),
      );
    };
    document.head.append(style, script);
  });
  return loading;
}
