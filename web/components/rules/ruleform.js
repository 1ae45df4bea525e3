/** The form of a custom rule: the condition as a sentence, every field, and the same as TOML. */

import { el, refill, say } from "../../browser/dom.js";
import { pow2, ruleTitle } from "../../lib/format.js";
import {
  COMPARISONS,
  REDUCERS,
  SEVERITIES,
  UNITS,
  bodyOf,
  idFrom,
  joinSpan,
  listOf,
  numberOf,
  splitSpan,
  toml,
} from "../../lib/rules/ruledraft.js";
import { coverage } from "../../lib/rules/rulescope.js";
import { relativeRules, sentenceOf } from "../../lib/rules/ruletext.js";
import { copyButton } from "../code.js";
import { complain, field } from "../form.js";
import { checkbox, selectInput, textArea, textInput } from "../inputs.js";
import { icon } from "../icons.js";

/** @typedef {import("../../lib/rules/ruledraft.js").Draft} Draft */
/** @typedef {keyof Draft} Name */

export class RuleForm {
  /**
   * @param {Draft} draft
   * @param {{ fresh: boolean, taken: string[], changed: () => void, save: () => void, below: Node }} o below:
   *   shown under the condition
   */
  constructor(draft, { fresh, taken, changed, save, below }) {
    this.draft = { ...draft };
    this.fresh = fresh;
    this.taken = taken;
    this.changed = changed;
    /** Until the user edits the id, it follows the title. */
    this.follows = fresh && !draft.id;
    if (this.follows && draft.title) this.draft.id = idFrom(draft.title, taken);
    this.rest = el("p.fielderror", { role: "alert", hidden: true });
    this.text = el("pre", { tabindex: "0" });
    this.power = el("span.muted");
    this.aloud = el("p.rulealoud", { role: "status" });
    this.doubt = el("p.notefile.ruledoubt", { role: "status" });
    this.doubted = "";
    this.coverage = el("p.micro.coverage", { role: "status" });
    /** @type {RuleScope | null} */
    this.scope = null;
    /** @type {import("../form.js").Field[]} */
    this.fields = [];
    this.id = textInput();
    this.node = el(
      "form.ruleform",
      {
        novalidate: true,
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          save();
        },
      },
      el(
        "div.rulecolumn",
        {},
        el(
          "section.card.pad",
          { "aria-label": "Condition" },
          el("h2", {}, "When"),
          this.#sentence(),
          this.aloud,
          this.doubt,
          this.rest,
          this.#asText(),
        ),
        below,
      ),
      el(
        "section.card.pad",
        { "aria-label": "Text and scope" },
        el("h2", {}, "Name and scope"),
        ...this.#words(),
      ),
      el("button", { type: "submit", hidden: true, tabindex: "-1" }, "Save"),
    );
    this.#shape();
  }

  /**
   * @param {Name} name
   * @param {string | boolean} value
   */
  #set(name, value) {
    /** @type {Record<string, unknown>} */ (this.draft)[name] = value;
    if (name === "title" && this.follows) {
      this.draft.id = this.draft.title.trim() ? idFrom(this.draft.title, this.taken) : "";
      this.id.value = this.draft.id;
    }
    if (name === "id") this.follows = false;
    this.#shape();
    this.changed();
  }

  /** Return the fields for the API. */
  get body() {
    return bodyOf(this.draft);
  }

  /** Hide fields that this form doesn't have; update the TOML. */
  #shape() {
    const { reducer, comparison } = this.draft;
    const absent = reducer === "absent";
    const sided = comparison !== "==" && comparison !== "!=";
    for (const [names, there] of /** @type {[string[], boolean][]} */ ([
      [["window"], reducer !== "value"],
      [["comparison", "limit"], !absent],
      [["recover"], !absent && sided],
    ])) {
      for (const name of names) this.#of(name).node.hidden = !there;
    }
    const limit = numberOf(this.draft.limit);
    const power = typeof limit === "number" ? pow2(limit) : "";
    refill(
      this.power,
      power.startsWith("2") && typeof limit === "number" && limit > 8 && power !== String(limit)
        ? ` = ${power}`
        : "",
    );
    say(this.aloud, sentenceOf(this.draft, this.#lists()));
    this.#doubt();
    say(this.coverage, this.scope ? coverage(this.draft.series, this.scope) : "");
    refill(this.text, toml(this.body));
  }

  #lists() {
    const { projects, runs, tags } = this.draft;
    return { projects: listOf(projects), runs: listOf(runs), tags: listOf(tags) };
  }

  /** Warn of a limit that fits one model only, and name what compares with the run's own level. */
  #doubt() {
    const rules = relativeRules(this.draft);
    const key = JSON.stringify([rules, this.draft.series]);
    if (key === this.doubted) return;
    this.doubted = key;
    this.doubt.hidden = !rules;
    if (!rules) return refill(this.doubt);
    refill(
      this.doubt,
      icon("warning"),
      ` A fixed limit fits one model: what is usual for ${this.draft.series.trim()} differs between runs. ` +
        "These built-in rules compare it with the run's own level: ",
      ...rules.flatMap((rule, at) => [
        at ? ", " : "",
        el("a.link", { href: `/rules?rule=${rule}` }, ruleTitle(rule)),
      ]),
      ". Or check ",
      el(
        "button.btn",
        { type: "button", onclick: () => this.#relative() },
        "its ratio to the mean over 200 steps",
      ),
    );
  }

  /** Compare the series with its own mean instead of a fixed level. */
  #relative() {
    Object.assign(this.draft, { reducer: "ratio", window: "200 steps", recover: "" });
    const { input } = this.#of("reducer");
    /** @type {HTMLSelectElement} */ (input).value = "ratio";
    /** @type {HTMLInputElement} */ (this.#of("recover").input).value = "";
    const [amount, unit] = this.#of("window").input.querySelectorAll("input, select");
    /** @type {HTMLInputElement} */ (amount).value = "200";
    /** @type {HTMLSelectElement} */ (unit).value = "steps";
    this.#shape();
    this.changed();
    this.#of("limit").input.focus();
  }

  /** @param {string} name */
  #of(name) {
    return /** @type {import("../form.js").Field} */ (this.fields.find((each) => each.name === name));
  }

  /**
   * @param {Name} name
   * @param {string} label
   * @param {HTMLElement} input
   * @param {string} [hint]
   */
  #field(name, label, input, hint = "") {
    const made = field(name, label, input, hint);
    this.fields.push(made);
    return made.node;
  }

  /**
   * @param {Name} name
   * @param {string} label
   * @param {string} [hint]
   * @param {Record<string, unknown>} [props]
   */
  #textField(name, label, hint = "", props = {}) {
    const input = textInput(String(this.draft[name]), props);
    input.addEventListener("input", () => this.#set(name, input.value));
    if (name === "id") this.id = input;
    return this.#field(name, label, input, hint);
  }

  /**
   * @param {Name} name
   * @param {string} label
   * @param {string} [hint]
   * @param {Record<string, unknown>} [props]
   */
  #areaField(name, label, hint = "", props = {}) {
    const input = textArea(String(this.draft[name]), props);
    input.addEventListener("input", () => this.#set(name, input.value));
    return this.#field(name, label, input, hint);
  }

  /**
   * @param {Name} name
   * @param {string} label
   * @param {readonly (readonly [string, string])[]} choices
   * @param {string} [hint]
   */
  #choice(name, label, choices, hint = "") {
    const input = selectInput(choices, String(this.draft[name]));
    input.addEventListener("change", () => this.#set(name, input.value));
    return this.#field(name, label, input, hint);
  }

  /**
   * A number and its unit.
   *
   * @param {Name} name
   * @param {string} label
   * @param {string} [hint]
   */
  #span(name, label, hint = "") {
    const [number, unit] = splitSpan(String(this.draft[name]));
    const amount = textInput(number, { inputmode: "decimal", "aria-label": label, class: "amount" });
    const units = selectInput(UNITS, unit, { "aria-label": `${label}: unit` });
    const write = () => this.#set(name, joinSpan(amount.value, units.value));
    amount.addEventListener("input", write);
    units.addEventListener("change", write);
    return this.#field(name, label, el("div.spaninput", {}, amount, units), hint);
  }

  #sentence() {
    const limit = this.#textField("limit", "Limit", "", {
      inputmode: "decimal",
      placeholder: "5, 1e-3 or 2^14",
    });
    limit.querySelector(".formlabel")?.append(this.power);
    return el(
      "div.rulesentence",
      {},
      this.#choice("reducer", "The", REDUCERS),
      this.#seriesField(),
      this.#span("window", "over"),
      this.#choice("comparison", "is", COMPARISONS),
      limit,
      this.#span("for", "for at least", "it is pending until then"),
      this.#choice("severity", "fire as", SEVERITIES),
      this.#textField("recover", "resolve at", "empty: at the limit", { inputmode: "decimal" }),
      this.#span("keep_firing_for", "for"),
    );
  }

  #seriesField() {
    const node = this.#textField("series", "of series", "a name, or a glob: val/*", { list: "known-series" });
    node.querySelector(".micro")?.after(this.coverage);
    return node;
  }

  /**
   * Show in how many runs of the scope the series is.
   *
   * @param {RuleScope} scope
   */
  offer(scope) {
    this.scope = scope;
    this.#shape();
  }

  #words() {
    const on = checkbox("Enabled", this.draft.enabled);
    on.input.addEventListener("change", () => this.#set("enabled", on.input.checked));
    return [
      this.#textField("title", "Title", "", { maxlength: 200 }),
      this.#textField("id", "Id", this.fresh ? "a-z, 0-9 and -; permanent" : "permanent", {
        readonly: !this.fresh,
        maxlength: 64,
      }),
      this.#textField("projects", "Projects", "globs, separated by commas; empty: all"),
      this.#textField("runs", "Runs", "names or ids; empty: all"),
      this.#textField("tags", "Tags", "any of them matches; empty: all"),
      this.#areaField("labels", "Labels", "name=value, one per line; for matchers of routes and silences", {
        rows: 1,
      }),
      this.#areaField("description", "Why it matters", "", { maxlength: 2000 }),
      this.#areaField("remedy", "First action", "", { maxlength: 2000 }),
      on.node,
    ];
  }

  #asText() {
    return el(
      "div.code.then",
      {},
      el(
        "div.cap",
        {},
        el("span", {}, "As TOML, for a file under version control"),
        copyButton("Copy", () => `${toml(this.body)}\n`),
      ),
      this.text,
    );
  }

  /**
   * Show an error at its field.
   *
   * @param {unknown} error
   * @returns {boolean} whether it has a field
   */
  complain(error) {
    const focus = /** @type {HTMLElement | null} */ (document.activeElement);
    const found = complain(this.fields, this.rest, error);
    return Boolean(found) && focus !== null;
  }

  /**
   * The same while the user types: the focus stays.
   *
   * @param {unknown} error
   * @returns {boolean}
   */
  hint(error) {
    const focus = /** @type {HTMLElement | null} */ (document.activeElement);
    const typing = this.node.contains(focus);
    const at =
      focus instanceof HTMLInputElement || focus instanceof HTMLTextAreaElement ? focus.selectionStart : null;
    const found = this.complain(error);
    if (typing && focus && focus !== document.activeElement) {
      focus.focus({ preventScroll: true });
      if (at !== null && (focus instanceof HTMLInputElement || focus instanceof HTMLTextAreaElement)) {
        focus.setSelectionRange(at, at);
      }
    }
    return found;
  }
}
