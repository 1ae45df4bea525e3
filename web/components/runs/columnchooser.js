/**
 * The dialog that chooses the columns of the fleet: add any metric or setting by name, show, hide and move.
 *
 * Data: names of metrics from data/api.js, keys of settings from data/configs.js; the page passes both on.
 */

import { el, focusIn, refill } from "../../browser/dom.js";
import { counted } from "../../lib/format.js";
import { COLUMNS, columnsOf, LONGEST_MEAN, MOST_COLUMNS, moved, USUAL } from "../../lib/runs/columns.js";
import { matching } from "../../lib/runs/suggestions.js";
import { icon } from "../icons.js";

/**
 * @typedef {{ columns: () => string[], set: (columns: string[]) => void, suggestions: () =>
 *   Promise<import("../../lib/runs/suggestions.js").Suggestion[]> }} Source
 */

/** @param {Source} source */
export function chooseColumns(source) {
  /** @type {import("../../lib/runs/suggestions.js").Suggestion[]} */
  let known = [];
  let note = "Loading the names.";
  const input = /** @type {HTMLInputElement} */ (
    el("input", {
      placeholder: "val_loss, config.lr",
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": "Find a metric or setting",
      oninput: () => find(),
    })
  );
  const count = /** @type {HTMLInputElement} */ (
    el("input.plain.amount", {
      type: "number",
      min: 1,
      max: LONGEST_MEAN,
      value: "10",
      oninput: () => find(),
    })
  );
  const found = el("ul.foundcolumns", { "aria-label": "Metrics and settings" });
  const shown = el("ol.showncolumns", { "aria-label": "Shown columns" });
  const others = el("div.othercolumns", {});
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog.card.columnchooser",
      { "aria-label": "Columns" },
      el(
        "div.bar",
        {},
        el("h2", {}, "Columns"),
        el("span.grow"),
        el("button.btn", { type: "button", onclick: () => set(USUAL) }, "Default columns"),
        el("button.btn.primary", { type: "button", onclick: () => dialog.close() }, "Done"),
      ),
      el(
        "div.row.wrap",
        {},
        el("label.field.grow", {}, icon("search"), input),
        el("label.row.tight", {}, el("span.soft", {}, "Mean of last"), count),
      ),
      found,
      el("h3.micro", {}, "Shown"),
      shown,
      el("h3.micro", {}, "More columns"),
      others,
    )
  );

  /** @param {string[]} columns */
  function set(columns) {
    source.set(columns.slice(0, MOST_COLUMNS));
    list();
    find();
  }

  /** @param {string} id */
  const toggle = (id) => {
    const now = source.columns();
    set(now.includes(id) ? now.filter((each) => each !== id) : [...now, id]);
  };

  function find() {
    const now = source.columns();
    const { items, more } = matching(known, input.value);
    const { valid } = count.validity;
    const averaged = valid && count.value ? String(count.valueAsNumber) : "";
    refill(
      found,
      ...items.map(({ name, kinds, hint, metric }) =>
        el(
          "li",
          {},
          el("span.clip.grow", { title: name }, name),
          el("span.micro.nowrap", {}, hint),
          ...[
            ...kinds,
            ...(metric && averaged ? [[`mean${averaged}:${name}`, `Mean of ${averaged}`]] : []),
          ].map(([id, text]) =>
            el(
              "button.btn",
              {
                type: "button",
                "aria-pressed": String(now.includes(id)),
                "aria-label": `${text} of ${name}`,
                disabled: !now.includes(id) && now.length >= MOST_COLUMNS,
                onclick: () => toggle(id),
              },
              text,
            ),
          ),
        ),
      ),
      items.length ? null : el("li.muted", {}, note || `No metric or setting contains “${input.value}”.`),
      more ? el("li.muted", {}, `${counted(more, "more name")}. Type a part of the name.`) : null,
    );
  }

  function list() {
    const now = columnsOf(source.columns());
    const ids = now.map((column) => column.id);
    refill(
      shown,
      ...now.map((column, i) =>
        el(
          "li",
          { "data-column": column.id },
          el("span.clip.grow", { title: column.title }, column.title),
          ...(column.always
            ? []
            : [
                act("up", `Move ${column.title} left`, "↑", i < 2, () => move(column.id, ids[i - 1])),
                act("down", `Move ${column.title} right`, "↓", i === now.length - 1, () =>
                  move(column.id, ids[i + 2] ?? null),
                ),
                act("off", `Remove ${column.title}`, icon("close"), false, () => toggle(column.id)),
              ]),
        ),
      ),
    );
    refill(
      others,
      ...COLUMNS.filter((column) => !ids.includes(column.id)).map((column) =>
        el("button.btn", { type: "button", onclick: () => toggle(column.id) }, icon("plus"), column.title),
      ),
    );
  }

  /**
   * @param {string} id
   * @param {string | null} before
   */
  function move(id, before) {
    const way = before === null || source.columns().indexOf(id) < source.columns().indexOf(before);
    set(
      moved(
        columnsOf(source.columns()).map((column) => column.id),
        id,
        before,
      ),
    );
    focusIn(shown, `[data-column="${CSS.escape(id)}"] [data-act=${way ? "down" : "up"}]:not(:disabled)`);
  }

  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  list();
  find();
  dialog.showModal();
  input.focus();
  void source.suggestions().then(
    (names) => {
      [known, note] = [names, ""];
      find();
    },
    (error) => {
      note = `The names could not be loaded: ${error.message}`;
      find();
    },
  );
}

/**
 * @param {string} name
 * @param {string} label
 * @param {import("../../browser/dom.js").Kid} face
 * @param {boolean} disabled
 * @param {() => void} run
 */
const act = (name, label, face, disabled, run) =>
  el(
    "button.btn.bare",
    { type: "button", "data-act": name, "aria-label": label, title: label, disabled, onclick: run },
    face,
  );
