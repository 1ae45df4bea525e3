/** Tests the edited routing document with open alerts or with an example. */

import { el, refill } from "../../browser/dom.js";
import { ApiError } from "../../data/http.js";
import { sentence } from "../../lib/fielderror.js";
import { int, ruleTitle } from "../../lib/format.js";
import { span } from "../../lib/format.js";
import { selectInput, textInput } from "../inputs.js";
import { icon } from "../icons.js";

const PAUSE_MS = 300;
const MOST_SHOWN = 20;

export class RouteTest {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #turn = 0;

  /**
   * @param {App} app
   * @param {() => import("../../lib/alerts/routesdoc.js").Routing | null} doc
   */
  constructor(app, doc) {
    this.app = app;
    this.doc = doc;
    this.list = el("div", { "aria-live": "polite" });
    this.which = selectInput(
      [
        ["open", "open alerts"],
        ["made", "made-up alert"],
      ],
      "open",
      { "aria-label": "What to test", onchange: () => this.stir() },
    );
    this.severity = selectInput(
      [
        ["critical", "critical"],
        ["warning", "warning"],
        ["info", "info"],
      ],
      "critical",
      { "aria-label": "Severity", onchange: () => this.stir() },
    );
    this.rule = textInput("nonfinite-loss", {
      "aria-label": "Rule",
      placeholder: "rule",
      oninput: () => this.stir(),
    });
    this.project = textInput("", {
      "aria-label": "Project",
      placeholder: "project",
      oninput: () => this.stir(),
    });
    this.tags = textInput("", {
      "aria-label": "Tags",
      placeholder: "tags, separated by commas",
      oninput: () => this.stir(),
    });
    this.made = el("div.row.madeup", { hidden: true }, this.severity, this.rule, this.project, this.tags);
    this.node = el(
      "section.card.pad.routetest",
      { "aria-label": "Test the routes" },
      el("div.row", {}, el("h2.grow", {}, "Test routes"), this.which),
      this.made,
      this.list,
    );
  }

  /** Send the request after a pause in typing. */
  stir() {
    this.made.hidden = this.which.value !== "made";
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(), PAUSE_MS);
  }

  close() {
    clearTimeout(this.#timer);
    this.#turn++;
  }

  #labels() {
    if (this.which.value !== "made") return null;
    return {
      severity: this.severity.value,
      rule: this.rule.value,
      project: this.project.value,
      tags: this.tags.value,
    };
  }

  async #ask() {
    const doc = this.doc();
    const mine = ++this.#turn;
    if (!doc) return;
    try {
      const answer = await this.app.alerting.tryRoutes(doc, this.#labels());
      if (mine === this.#turn) this.#draw(answer.items, answer.left_out);
    } catch (error) {
      if (mine === this.#turn) {
        refill(
          this.list,
          el(
            "p.soft",
            {},
            icon("warning"),
            " Not yet: ",
            error instanceof ApiError
              ? `${String(error.problem.subject ?? "")} ${sentence(error)}`
              : String(error),
          ),
        );
      }
    }
  }

  /**
   * @param {RouteTrial[]} items
   * @param {number} leftOut
   */
  #draw(items, leftOut) {
    const shown = items.slice(0, MOST_SHOWN);
    const more = items.length - shown.length + leftOut;
    refill(
      this.list,
      items.length ? null : el("p.muted", {}, "No alert is open. Test an example instead."),
      ...shown.map((item) => this.#item(item)),
      more ? el("p.micro", {}, `and ${int(more)} more`) : null,
    );
  }

  /** @param {RouteTrial} item */
  #item(item) {
    const alert = this.app.alerts.all().find((each) => each.id === item.alert);
    const { labels } = item;
    const named = item.routes.flatMap((route) => route.channels.map((channel) => `${channel}`));
    const why = item.imported
      ? "imported: no notifications"
      : item.silenced_by.length
        ? "silenced"
        : item.inhibited_by.length
          ? "inhibited by another alert"
          : "";
    const head =
      item.alert === null
        ? el("b", {}, "Would be sent")
        : el(
            "span",
            {},
            alert ? icon(alert.severity, alert.severity) : null,
            " ",
            el("b", {}, ruleTitle(labels.rule)),
            ` ${labels.run} `,
            alert?.state === "pending" ? el("span.chip", {}, "pending") : null,
          );
    return el(
      "div.tried",
      { "data-tried": item.alert ?? "made" },
      el("p", {}, head, why ? el("span.chip", {}, icon("mute"), why) : null),
      item.routes.length
        ? el(
            "ol",
            {},
            ...item.routes.map((route) =>
              el(
                "li",
                {},
                el("b", {}, route.name),
                ` → ${route.channels.join(", ") || "no enabled channel"} `,
                el("span.muted", {}, `after ${span(route.wait_s)}`),
                route.muted ? el("span.chip", {}, icon("mute"), "muted now") : null,
              ),
            ),
          )
        : el("p.soft", {}, icon("info"), " No route matches: no notification would be sent."),
      item.routes.length && !named.length
        ? el(
            "p.micro",
            {},
            item.routes.length === 1
              ? "The matching route leads to no enabled channel."
              : "None of the matching routes leads to an enabled channel.",
          )
        : null,
    );
  }
}
