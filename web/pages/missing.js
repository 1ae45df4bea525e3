import { el } from "../lib/dom.js";
import { icon } from "../parts/icons.js";

/**
 * An address that leads nowhere.
 *
 * @type {import("../main.js").OpenPage}
 */
export function missingPage(app, main) {
  app.title("Not found");
  main.append(
    el(
      "section.card.pad.notice",
      {},
      el("h1", {}, icon("info"), " There is no page here"),
      el(
        "p.soft",
        {},
        "Nothing lies at ",
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
