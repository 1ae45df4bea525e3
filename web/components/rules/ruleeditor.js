/** The open rule: its form, and below it a backtest on stored runs. */

import { el, focusIn, refill } from "../../browser/dom.js";
import { counted, int, ruleTitle } from "../../lib/format.js";
import { BLANK, draftFor, draftOf, listOf, numberOf } from "../../lib/rules/ruledraft.js";
import { sourceText } from "../../lib/views/ruleview.js";
import { icon } from "../icons.js";
import { Prose } from "../markdown.js";
import { BuiltinForm } from "./builtinform.js";
import { RuleForm } from "./ruleform.js";
import { RuleTrial } from "./ruletrial.js";

/**
 * @typedef {{ draft?: import("../../lib/rules/ruledraft.js").Draft, tuning?: import("./builtinform.js").Tuned
 *   }} Left
 */
/**
 * Unsaved edits of the newest few editors that were left, by editor key.
 *
 * @type {Map<string, Left>}
 */
const left = new Map();
const MOST_LEFT = 20;
const MOST_OFFERED = 300;
const BACK = () => el("p.notefile.soft", { role: "status" }, icon("info"), " Restored your unsaved changes.");

/**
 * @typedef {{ app: App, client: import("../../data/ruleclient.js").RuleClient, known: { items: BuiltinRule[],
 *   custom: CustomRule[] }, view: import("../../lib/views/ruleview.js").RulesView, key: string, may:
 *   boolean, back:
 *   string, address: (change: Partial<import("../../lib/views/ruleview.js").RulesView>) => string, saved:
 *   (text: string, id: string) => void, remove: (rule: CustomRule) => void }} Given
 */

export class RuleEditor {
  /** @param {Given} given */
  constructor(given) {
    this.given = given;
    this.key = given.key;
    const { known, view } = given;
    const own = known.custom.find((rule) => rule.id === view.rule);
    const builtin = known.items.find((rule) => rule.id === view.rule);
    this.own = view.fresh ? undefined : own;
    this.builtin = view.fresh ? undefined : builtin;
    this.missing = !view.fresh && !own && !builtin;
    this.busy = false;
    /** Unsaved edits: ask before the tab closes, keep them for a return to the page. */
    this.leave = (/** @type {BeforeUnloadEvent} */ event) => {
      if (this.#dirty()) event.preventDefault();
    };
    this.begun = "";
    /** @type {RuleForm | undefined} */
    this.form = undefined;
    /** @type {BuiltinForm | undefined} */
    this.setting = undefined;
    this.title = view.fresh
      ? "New rule"
      : own
        ? own.title || own.id
        : builtin
          ? ruleTitle(builtin.id)
          : "No such rule";
    this.heading = el("h1", {}, this.title);
    this.save = /** @type {HTMLButtonElement} */ (
      el(
        "button.btn.primary",
        { type: "button", disabled: !given.may, onclick: () => void this.#store() },
        "Save",
      )
    );
    this.trial = new RuleTrial(
      given.app,
      given.client,
      (error) => this.#hint(error),
      (scope) => this.#offer(scope),
    );
    this.node = el(
      "div.ruleeditor",
      {},
      this.#head(),
      this.missing ? this.#nothing() : this.builtin ? this.#builtinForm(this.builtin) : this.#ownForm(),
      this.builtin && this.builtin.clock !== "time" ? this.trial.node : null,
    );
  }

  #head() {
    const { back } = this.given;
    const own = this.own;
    return el(
      "div.pagehead",
      {},
      el("nav.muted", { "aria-label": "Where" }, el("a", { href: back }, "Rules"), " /"),
      this.heading,
      own?.source ? el("span.chip", {}, sourceText(own.source)) : null,
      this.builtin ? el("span.chip", {}, "built-in") : null,
      el("span.grow"),
      el(
        "div.row",
        {},
        own
          ? el(
              "a.btn",
              { href: this.given.address({ fresh: true, copy: own.id, rule: "" }) },
              icon("copy"),
              "Copy",
            )
          : null,
        own && this.given.may
          ? el(
              "button.btn",
              { type: "button", onclick: () => this.given.remove(own) },
              icon("trash"),
              "Delete",
            )
          : null,
        el(
          "a.btn.bare",
          {
            href: back,
            onclick: () => {
              this.begun = this.#written();
            },
          },
          "Discard",
        ),
        this.missing ? null : this.save,
      ),
    );
  }

  #nothing() {
    return el(
      "section.card.pad.notice",
      {},
      el("h2", {}, icon("info"), " There is no such rule"),
      el("p.soft", {}, "It may have been deleted, or removed from its file."),
      el("p.then", {}, el("a.btn", { href: this.given.back }, "All rules")),
    );
  }

  /** Unsaved edits of an earlier visit. */
  #back() {
    const found = left.get(this.key);
    left.delete(this.key);
    return found;
  }

  #ownForm() {
    const { known, view } = this.given;
    const copied = known.custom.find((rule) => rule.id === view.copy);
    const taken = [...known.custom, ...known.items].map((rule) => rule.id);
    const back = this.#back()?.draft ?? null;
    const draft =
      back ??
      (this.own
        ? draftOf(this.own)
        : copied
          ? { ...draftOf(copied), id: "", title: `${copied.title || copied.id} (copy)`, enabled: false }
          : view.series
            ? draftFor(view.series, view.project)
            : BLANK);
    this.form = new RuleForm(draft, {
      fresh: !this.own,
      taken,
      changed: () => this.#try(),
      save: () => void this.#store(),
      below: this.trial.node,
    });
    const notice =
      this.own?.source && !this.own.source.startsWith("pack:")
        ? el(
            "p.notefile.soft",
            {},
            icon("info"),
            ` Defined in the file ${this.own.source}. The next apply overwrites changes made here.`,
          )
        : null;
    if (back) this.begun = "left";
    return el(
      "div",
      {},
      notice,
      back ? BACK() : null,
      this.form.node,
      el("datalist", { id: "known-series" }),
    );
  }

  /** @param {BuiltinRule} rule */
  #builtinForm(rule) {
    const back = this.#back()?.tuning;
    const chosen = back?.project ?? (this.given.view.project || "*");
    const host = el("div");
    const projects = [...new Set(["*", chosen, ...rule.tunings.map((each) => each.project)])];
    const show = (/** @type {string} */ project) => {
      this.setting = new BuiltinForm(
        rule,
        project,
        { changed: () => this.#try(), save: () => void this.#store() },
        project === back?.project ? back : undefined,
      );
      refill(host, this.setting.node);
      if (this.begun) this.begun = this.#written();
    };
    const tabs = el(
      "div.bar",
      {},
      el("span.micro", {}, "Settings"),
      ...projects.map((project) =>
        el(
          "button.btn.tinychip",
          {
            type: "button",
            "aria-pressed": String(project === chosen),
            onclick: (/** @type {Event} */ event) => {
              for (const each of tabs.querySelectorAll("button")) {
                each.setAttribute("aria-pressed", String(each === event.currentTarget));
              }
              show(project);
              this.#try();
            },
          },
          project === "*" ? "all projects" : project,
        ),
      ),
      el("span.micro", {}, "for another project, choose it in the list"),
    );
    show(chosen);
    if (back) this.begun = "left";
    const clock = rule.clock === "time" ? "the server's clock" : "steps";
    return el(
      "div",
      {},
      back ? BACK() : null,
      el("p.soft.ruleabout", {}, `${rule.title}. Evaluated by ${clock}; up to ${rule.severity}.`),
      this.#explanation(rule),
      tabs,
      host,
    );
  }

  /**
   * The page of a built-in rule, loaded when it is opened.
   *
   * @param {BuiltinRule} rule
   */
  #explanation(rule) {
    const { api } = this.given.app;
    const text = new Prose((source) => api.markdown(source), 0);
    const read = async () => {
      try {
        text.show((await this.given.client.explanation(rule.id)).text);
      } catch (error) {
        refill(text.node, el("p.soft", {}, /** @type {Error} */ (error).message));
      }
    };
    const node = /** @type {HTMLDetailsElement} */ (
      el(
        "details.card.pad.aboutrule",
        {
          ontoggle: () => {
            if (node.open && !text.node.childElementCount) void read();
          },
        },
        el("summary", {}, "What it detects, likely causes and first action"),
        text.node,
      )
    );
    return node;
  }

  /**
   * Validate while the user types.
   *
   * @param {unknown} error
   * @returns {boolean}
   */
  #hint(error) {
    if (this.form) return this.form.hint(error);
    return Boolean(error && this.setting?.complain(error));
  }

  /** Return everything entered, as one text. */
  #written() {
    return JSON.stringify(this.form ? this.form.body : this.setting ? this.setting.tuning : null);
  }

  #dirty() {
    return this.begun !== "" && this.begun !== this.#written();
  }

  begin() {
    if (this.missing) return;
    this.begun ||= this.#written();
    addEventListener("beforeunload", this.leave);
    this.#try();
    const { rule, series } = this.given.view;
    if (!rule) focusIn(this.node, `[data-field=${series ? "limit" : "title"}]`, { preventScroll: true });
  }

  close() {
    removeEventListener("beforeunload", this.leave);
    if (this.#dirty()) left.set(this.key, { draft: this.form?.draft, tuning: this.setting?.tuning });
    for (const key of [...left.keys()].slice(0, Math.max(0, left.size - MOST_LEFT))) left.delete(key);
    this.trial.stop();
  }

  /**
   * Suggest the series of the runs in scope, and say in how many of them the rule's own is.
   *
   * @param {RuleScope} scope
   */
  #offer(scope) {
    this.form?.offer(scope);
    const list = this.node.querySelector("#known-series");
    if (!list) return;
    const options = scope.series
      .slice(0, MOST_OFFERED)
      .map(({ name, runs }) =>
        el("option", { value: name }, `in ${int(runs)} of ${counted(scope.runs.length, "run")}`),
      );
    refill(list, ...options);
  }

  /** Request where the rule would have fired. */
  #try() {
    if (this.form) this.#tryOwn(this.form);
    else if (this.builtin && this.setting && this.builtin.clock !== "time") {
      this.#tryBuiltin(this.builtin, this.setting);
    }
  }

  /** @param {RuleForm} form */
  #tryOwn({ body, draft }) {
    const globs = { projects: listOf(draft.projects), runs: listOf(draft.runs), tags: listOf(draft.tags) };
    if (draft.reducer !== "absent" && body.limit === null) {
      return this.trial.rest("Enter a limit to test the rule on stored runs.", globs);
    }
    const drawn = !["ratio", "change", "rate", "nonfinite", "absent"].includes(draft.reducer);
    const limit = drawn ? numberOf(draft.limit) : null;
    this.trial.follow({
      order: { draft: { ...body, id: this.own?.id ?? "draft" } },
      limit: typeof limit === "number" ? limit : null,
      globs,
    });
  }

  /**
   * @param {BuiltinRule} rule
   * @param {BuiltinForm} setting
   */
  #tryBuiltin(rule, setting) {
    const settings = { ...rule.effective.settings, ...setting.tuning.settings };
    const projects = setting.project === "*" ? [] : [setting.project];
    this.trial.follow({
      order: { rule: rule.id, settings },
      limit: null,
      globs: { projects, runs: [], tags: [] },
    });
  }

  async #store() {
    if (this.busy || !this.given.may) return;
    this.busy = this.save.disabled = true;
    try {
      if (this.form) await this.#storeOwn(this.form);
      else if (this.builtin && this.setting) await this.#storeBuiltin(this.builtin, this.setting);
    } catch (error) {
      (this.form ?? this.setting)?.complain(error);
    } finally {
      this.busy = this.save.disabled = false;
    }
  }

  /** @param {RuleForm} form */
  async #storeOwn(form) {
    const { body } = form;
    const saved = this.own
      ? await this.given.client.change(this.own.id, body)
      : await this.given.client.create(body);
    this.begun = this.#written();
    this.given.saved(`Saved: ${saved.title || saved.id} is ${saved.enabled ? "on" : "off"}`, saved.id);
  }

  /**
   * @param {BuiltinRule} rule
   * @param {BuiltinForm} setting
   */
  async #storeBuiltin(rule, setting) {
    const set = rule.tunings.some((each) => each.project === setting.project);
    if (!setting.isEmpty) await this.given.client.tune(rule.id, setting.tuning);
    else if (set) await this.given.client.untune(rule.id, setting.project);
    this.begun = this.#written();
    this.given.saved(
      `Saved: ${ruleTitle(rule.id)} in ${setting.project === "*" ? "all projects" : setting.project}`,
      rule.id,
    );
  }
}
