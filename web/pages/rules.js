/**
 * Rules: built-in rules, custom rules, packs, and the editor.
 *
 * Data: data/ruleclient.js. State: the address, read and written by lib/views/ruleview.js. View:
 * components/rules/rulelist.js, and components/rules/ruleeditor.js for one rule.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { go } from "../browser/navigate.js";
import { failed } from "../components/form.js";
import { icon } from "../components/icons.js";
import { RuleEditor } from "../components/rules/ruleeditor.js";
import { packRow, ruleRow } from "../components/rules/rulelist.js";
import { showUndo } from "../components/undo.js";
import { ApiError } from "../data/http.js";
import { RuleClient } from "../data/ruleclient.js";
import { clock as clockTime, int, moment, ruleTitle } from "../lib/format.js";
import { outside } from "../lib/root.js";
import { bodyOf, draftOf } from "../lib/rules/ruledraft.js";
import { levelOf, listed, readRules, writeRules } from "../lib/views/ruleview.js";

/** @typedef {import("../lib/views/ruleview.js").AnyRule} AnyRule */

const EVERY_MS = 15_000;
const CHANGES = 30;
const ACTIONS = /** @type {Record<string, string>} */ ({
  "rule.create": "made",
  "rule.change": "changed",
  "rule.delete": "deleted",
  "rule.settings": "set",
});

class Rules {
  /** @type {{ items: BuiltinRule[], custom: CustomRule[] } | null} */
  #known = null;
  /** @type {RulePack[]} */
  #packs = [];
  #key = "";
  /** @type {RuleEditor | null} */
  #editor = null;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.client = new RuleClient(app.api);
    this.may = app.session.scope === "write" || app.session.scope === "admin";
    this.count = el("span.muted", {}, "–");
    this.list = el("div.rulelists");
    this.search = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "search",
        placeholder: "name, series, setting",
        "aria-label": "Search rules",
        oninput: () => this.#narrow({ q: this.search.value }),
      })
    );
    this.severity = this.#choice("severity", "Severity", [
      ["", "all severities"],
      ["critical", "critical"],
      ["warning", "warning"],
      ["info", "info"],
    ]);
    this.state = this.#choice("state", "State", [
      ["", "on and off"],
      ["on", "on"],
      ["off", "off"],
      ["changed", "custom or changed"],
    ]);
    this.project = this.#choice("project", "Project", [["", "all projects"]]);
    this.acts = {
      href: (/** @type {string} */ id) => this.#address({ rule: id, fresh: false, copy: "", series: "" }),
      toggle: (/** @type {AnyRule} */ rule) => void this.#toggle(rule),
      copy: (/** @type {CustomRule} */ rule) =>
        go(this.#address({ fresh: true, copy: rule.id, rule: "", series: "" })),
      remove: (/** @type {CustomRule} */ rule) => void this.remove(rule),
      may: this.may,
    };
  }

  open() {
    this.#frame();
    void this.load();
    void this.#projects();
    this.ticker = setInterval(() => {
      if (!document.hidden && !this.#editor) void this.load();
    }, EVERY_MS);
    this.stop = this.app.live.onReconnect(() => void this.load());
  }

  close() {
    clearInterval(this.ticker);
    this.stop?.();
    this.#editor?.close();
  }

  moved() {
    this.#frame();
    return true;
  }

  get view() {
    return readRules(location.search);
  }

  /** @param {Partial<import("../lib/views/ruleview.js").RulesView>} change */
  #address(change) {
    return `/rules${writeRules({ ...this.view, ...change })}`;
  }

  /** @param {Partial<import("../lib/views/ruleview.js").RulesView>} change */
  #narrow(change) {
    history.replaceState(null, "", outside(this.#address(change)));
    if ("project" in change) void this.load();
    else this.#draw();
  }

  /**
   * @param {"severity" | "state" | "project"} name
   * @param {string} label
   * @param {[string, string][]} choices
   */
  #choice(name, label, choices) {
    const node = /** @type {HTMLSelectElement} */ (
      el(
        "select",
        { "aria-label": label, onchange: () => this.#narrow({ [name]: node.value }) },
        ...choices.map(([value, text]) => el("option", { value }, text)),
      )
    );
    return node;
  }

  /** Show the list, or the editor if a rule is open. */
  #frame() {
    const { rule, fresh } = this.view;
    if (rule || fresh) return this.#edit();
    this.#editor?.close();
    this.#editor = null;
    this.app.title("Rules");
    const fresher = el(
      "a.btn.primary",
      { href: this.#address({ fresh: true }), "aria-disabled": this.may ? null : "true" },
      icon("plus"),
      "New rule",
    );
    refill(
      this.main,
      el("div.pagehead", {}, el("h1", {}, "Rules"), this.count, el("span.grow"), this.may ? fresher : null),
      el(
        "div.bar",
        {},
        el("label.field.query", {}, icon("search"), this.search),
        this.severity,
        this.state,
        this.project,
      ),
      this.list,
    );
    const { q, severity, state } = this.view;
    this.search.value = q;
    this.severity.value = severity;
    this.state.value = state;
    this.#key = "";
    this.#draw();
  }

  async #projects() {
    try {
      const { items } = await this.app.api.ask("/projects");
      refill(
        this.project,
        el("option", { value: "" }, "all projects"),
        ...items.map((/** @type {{ name: string }} */ { name }) =>
          el("option", { value: name }, `in ${name}`),
        ),
      );
      this.project.value = this.view.project;
    } catch {
      /* the list works without it */
    }
  }

  async load() {
    try {
      const [known, packs] = await Promise.all([this.client.rules(this.view.project), this.client.packs()]);
      this.#known = known;
      this.#packs = packs.items;
      if (this.view.rule || this.view.fresh) this.#edit();
      else this.#draw();
    } catch (error) {
      if (!this.#known) {
        failed(this.view.rule || this.view.fresh ? this.main : this.list, error, () => void this.load());
      }
    }
  }

  #draw() {
    const known = this.#known;
    const { view } = this;
    if (view.rule || view.fresh) return;
    if (!known) {
      return refill(this.list, el("section.card.pad.muted", { role: "status" }, "Loading rules …"));
    }
    const own = listed(known.custom, view);
    const builtin = listed(known.items, view).sort((a, b) => a.id.localeCompare(b.id));
    const on = (/** @type {AnyRule[]} */ rules) =>
      `${int(rules.filter((rule) => rule.enabled).length)} of ${int(rules.length)}`;
    const custom = known.custom.length ? `${on(known.custom)} custom and ` : "";
    say(this.count, `${custom}${on(known.items)} built-in rules are on`);
    const key = JSON.stringify([
      view,
      own,
      builtin.map((rule) => [rule.id, rule.enabled, levelOf(rule), rule.tunings]),
      this.#packs,
    ]);
    if (key === this.#key) return;
    this.#key = key;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.focus;
    refill(
      this.list,
      this.#section(
        "Custom rules",
        "defined by users",
        own,
        known.custom.length ? "No custom rule matches." : this.#none(),
      ),
      this.#section("Built-in rules", "each is documented", builtin, "No built-in rule matches."),
      this.#packSection(),
      this.#history(),
    );
    if (focused) focusIn(this.list, `[data-focus="${CSS.escape(focused)}"]`);
  }

  #none() {
    return el(
      "span",
      {},
      "No custom rules yet. ",
      this.may
        ? el("a.link", { href: this.#address({ fresh: true }) }, "Create one")
        : "A login with write scope can create them",
      ", or enable a pack below. You can also keep rules in a file: ",
      el("code", {}, "tocsin-server rules apply rules.toml"),
      ".",
    );
  }

  /**
   * @param {string} title
   * @param {string} note
   * @param {AnyRule[]} rules
   * @param {string | Node} otherwise
   */
  #section(title, note, rules, otherwise) {
    return el(
      "section.card.listing",
      { "aria-label": title },
      el("h2.grouphead", {}, title, el("span.muted", {}, int(rules.length)), el("span.micro", {}, note)),
      ...(rules.length ? rules.map((rule) => ruleRow(rule, this.acts)) : [el("p.pad.soft", {}, otherwise)]),
    );
  }

  #packSection() {
    return el(
      "section.card.listing",
      { "aria-label": "Packs" },
      el("h2.grouphead", {}, "Packs", el("span.micro", {}, "ready-made rules, enabled together")),
      ...this.#packs.map((pack) => packRow(pack, (each) => void this.#switchPack(each), this.may)),
    );
  }

  #history() {
    const body = el("div");
    const read = async () => {
      refill(body, el("p.muted", {}, "–"));
      try {
        const { items } = await this.client.changes();
        refill(
          body,
          items.length
            ? el(
                "ul.rulehistory",
                {},
                ...items
                  .slice(0, CHANGES)
                  .map((act) =>
                    el(
                      "li",
                      {},
                      el("span.muted", { title: moment(act.at_ms) }, clockTime(act.at_ms)),
                      " ",
                      el("b", {}, act.rule),
                      ` ${ACTIONS[act.action] ?? act.action} by ${act.actor}`,
                    ),
                  ),
              )
            : el("p.muted", {}, "No changes yet."),
        );
      } catch (error) {
        refill(body, el("p.soft", {}, /** @type {Error} */ (error).message));
      }
    };
    const node = /** @type {HTMLDetailsElement} */ (
      el(
        "details.card.pad.historyof",
        {
          ontoggle: () => {
            if (node.open) void read();
          },
        },
        el("summary", {}, "Change log"),
        body,
      )
    );
    return node;
  }

  // Actions in the list

  /** @param {AnyRule} rule */
  async #toggle(rule) {
    const name = rule.kind === "custom" ? rule.title || rule.id : ruleTitle(rule.id);
    const on = !rule.enabled;
    const where = rule.kind === "builtin" ? ` in ${this.view.project || "all projects"}` : "";
    await this.#do(
      () =>
        rule.kind === "custom" ? this.client.change(rule.id, { enabled: on }) : this.#switchBuiltin(rule, on),
      `${name} is ${on ? "on" : "off"}${where}`,
      () => void this.#toggle({ ...rule, enabled: on }),
    );
  }

  /**
   * Keep its other settings.
   *
   * @param {BuiltinRule} rule
   * @param {boolean} on
   */
  async #switchBuiltin(rule, on) {
    const project = this.view.project || "*";
    const known = (await this.client.rules(project === "*" ? "" : project)).items.find(
      (each) => each.id === rule.id,
    );
    const set = known?.tunings.find((each) => each.project === project);
    const { severity = null, settings = {} } = set ?? {};
    const wanted =
      on &&
      (project === "*" || !known?.tunings.some((each) => each.project === "*" && each.enabled === false))
        ? null
        : on;
    if (wanted === null && severity === null && !Object.keys(settings).length) {
      return set ? this.client.untune(rule.id, project) : null;
    }
    return this.client.tune(rule.id, { project, enabled: wanted, severity, settings });
  }

  /** @param {CustomRule} rule */
  async remove(rule) {
    const fields = bodyOf(draftOf(rule));
    await this.#do(
      () => this.client.remove(rule.id),
      `Deleted: ${rule.title || rule.id}`,
      () => void this.#do(() => this.client.create(fields), `Restored: ${rule.title || rule.id}`, null),
    );
  }

  /** @param {RulePack} pack */
  async #switchPack(pack) {
    await this.#do(
      () => this.client.switchPack(pack.name, !pack.enabled),
      `Pack ${pack.title} is ${pack.enabled ? "off" : "on"}`,
      () => void this.#switchPack({ ...pack, enabled: !pack.enabled }),
    );
  }

  /**
   * @param {() => Promise<unknown> | unknown} act
   * @param {string} text
   * @param {(() => void) | null} undo
   */
  async #do(act, text, undo) {
    try {
      await act();
      showUndo(text, undo);
    } catch (error) {
      showUndo(
        error instanceof ApiError && error.status === 403
          ? "Not allowed with this login: it has read scope."
          : `Not changed: ${/** @type {Error} */ (error).message}`,
        null,
      );
    }
    await this.load();
  }

  // The editor

  #edit() {
    const { rule, fresh, copy, project, series } = this.view;
    const key = `${rule} ${fresh} ${copy} ${project} ${series}`;
    if (this.#editor?.key === key) return;
    if (!this.#known) {
      return refill(this.main, el("section.card.pad.muted", { role: "status" }, "Loading rules …"));
    }
    this.#editor?.close();
    this.#editor = new RuleEditor({
      app: this.app,
      client: this.client,
      known: this.#known,
      view: this.view,
      key,
      may: this.may,
      back: this.#address({ rule: "", fresh: false, copy: "", series: "" }),
      address: (change) => this.#address(change),
      saved: (text, id) => this.#saved(text, id),
      remove: async (own) => {
        await this.remove(own);
        go(this.#address({ rule: "", fresh: false, copy: "", series: "" }));
      },
    });
    this.app.title(this.#editor.title);
    refill(this.main, this.#editor.node);
    this.#editor.begin();
  }

  /**
   * @param {string} text
   * @param {string} id
   */
  async #saved(text, id) {
    showUndo(text, null);
    this.#editor?.close();
    this.#editor = null;
    await this.load();
    go(this.#address({ rule: "", fresh: false, copy: "", series: "" }));
    /** @type {HTMLElement | null} */ (
      this.list.querySelector(`[data-focus="${CSS.escape(`open-${id}`)}"]`)
    )?.focus();
  }
}

/** @type {OpenPage} */
export function rulesPage(app, main) {
  const page = new Rules(app, main);
  page.open();
  return page;
}
