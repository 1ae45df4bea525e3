/**
 * The page for unknown addresses.
 *
 * Data: none. State: none. View: one sentence and two links.
 */

import { el } from "../browser/dom.js";
import { icon } from "../components/icons.js";

/** @type {OpenPage} */
export function missingPage(app, main) {
  app.title("Not found");
  main.append(
    el(
      "section.card.pad.notice",
      {},
      el("h1", {}, icon("info"), " Page not found"),
      el(
        "p.soft",
        {},
        "There is no page at ",
        el("code", {}, location.pathname),
        ". Runs are at ",
        el("code", {}, "/runs/<id>"),
        ".",
      ),
      el(
        "div.row.then",
        {},
        el("a.btn.primary", { href: "/" }, "All runs"),
        el("a.btn", { href: "/alerts" }, "Open alerts"),
      ),
    ),
  );
  return { close() {} };
}
