/**
 * The menu of saved views of the fleet: show one, save this one, change or delete it.
 *
 * Data: data/savedviews.js; the page says what it shows now and applies a view.
 */

import { el, refill } from "../../browser/dom.js";
import { isSame, savedOf, viewOf } from "../../lib/views/savedview.js";
import { ask, field, formDialog } from "../form.js";
import { checkbox, selectInput, textInput } from "../inputs.js";
import { icon } from "../icons.js";
import { menu } from "../menu.js";

/**
 * @typedef {import("../../lib/views/fleetview.js").FleetView} FleetView
 *
 * @typedef {{ views: import("../../data/savedviews.js").SavedViews, now: () => FleetView, projects: () =>
 *   string[], may: boolean, apply: (view: Partial<FleetView>) => void, standard: () => void }} Source
 */

export class ViewMenu {
  /** The saved view that was opened last, which can be changed. */
  #chosen = "";

  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    this.node = menu("Saved views", () => this.#items(), { text: "Views", shape: "eye" });
    const button = /** @type {HTMLButtonElement} */ (this.node.querySelector("button"));
    button.disabled = true; // the menu would stay without the views that arrive
    void source.views.loaded.finally(() => (button.disabled = false));
  }

  /** The view that is shown, with changes or without, or undefined. */
  #current() {
    const { items } = this.source.views;
    const now = savedOf(this.source.now());
    return items.find((view) => isSame(view, now)) ?? items.find(({ id }) => id === this.#chosen);
  }

  /** @returns {import("../menu.js").Item[]} */
  #items() {
    const { views, may, standard } = this.source;
    const now = savedOf(this.source.now());
    const current = this.#current();
    const projects = [...new Set(views.items.map(({ project }) => project))];
    const own = [
      ...(current && !isSame(current, now)
        ? [{ text: `Save changes to ${current.name}`, act: () => this.#save(current, now) }]
        : []),
      ...(views.items.length ? [{ text: "Rename or delete…", act: () => this.#manage() }] : []),
    ];
    return [
      ...projects.flatMap((project) => [
        { head: project || "All projects" },
        ...views.items
          .filter((view) => view.project === project)
          .map((view) => ({
            text: `${view.name}${view.is_default ? " (default)" : ""}`,
            on: isSame(view, now),
            act: () => this.#show(view),
          })),
      ]),
      { head: "This page" },
      { text: "Standard view", act: standard },
      ...(may ? [{ text: "Save as a new view", act: () => this.#edit(null) }, ...own] : []),
    ];
  }

  /** @param {SavedView} view */
  #show(view) {
    this.#chosen = view.id;
    this.source.apply(viewOf(view));
  }

  /**
   * @param {SavedView} view
   * @param {import("../../lib/views/savedview.js").Saved} now
   */
  #save(view, now) {
    const { views } = this.source;
    ask(
      `Save changes to ${view.name}`,
      "Everyone who opens this view sees these filters, columns, order and groups from now on.",
      "Save",
      async () => void (await views.change(view.id, now)),
    );
  }

  /** List all views, to rename or delete one without showing it. */
  #manage() {
    const list = el("ul.viewlist", { "aria-label": "Saved views" });
    const dialog = /** @type {HTMLDialogElement} */ (
      el(
        "dialog.card.columnchooser",
        { "aria-label": "Saved views" },
        el(
          "div.bar",
          {},
          el("h2", {}, "Saved views"),
          el("span.grow"),
          el("button.btn.primary", { type: "button", onclick: () => dialog.close() }, "Done"),
        ),
        list,
      )
    );
    const show = () => {
      const { items } = this.source.views;
      refill(
        list,
        ...items.map((view) =>
          el(
            "li",
            {},
            el("span.clip.grow", { title: view.name }, view.name),
            el("span.micro.clip", {}, view.project || "All projects", view.is_default ? ", default" : ""),
            bare("pen", `Edit ${view.name}`, () => this.#edit(view, show)),
            bare("trash", `Delete ${view.name}`, () => this.#remove(view, show)),
          ),
        ),
        items.length ? null : el("li.muted", {}, "No saved views."),
      );
    };
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    show();
    dialog.showModal();
  }

  /**
   * @param {SavedView} view
   * @param {() => void} done
   */
  #remove(view, done) {
    ask(`Delete ${view.name}`, "The view is deleted for all users. No run changes.", "Delete", async () => {
      await this.source.views.remove(view.id);
      done();
    });
  }

  /**
   * Ask for name, project and whether it is the default; null saves what is shown as a new view.
   *
   * @param {SavedView | null} view
   * @param {() => void} [done]
   */
  #edit(view, done) {
    const { views, now, projects } = this.source;
    const name = field("name", "Name", textInput(view?.name ?? "", { maxlength: "100" }));
    const known = [...new Set([...projects(), view?.project ?? ""])].filter(Boolean).sort();
    const choices = /** @type {[string, string][]} */ ([
      ["", "All projects"],
      ...known.map((each) => [each, each]),
    ]);
    const project = field(
      "project",
      "Project",
      selectInput(choices, view?.project ?? ""),
      "The view is listed under it.",
    );
    const usual = checkbox("Default", view?.is_default ?? false);
    const first = field(
      "is_default",
      "Show at first",
      usual.node,
      "The default of a project is shown for the filter project:NAME, that of all projects without a filter.",
    );
    formDialog({
      title: view ? `Edit ${view.name}` : "Save as a new view",
      fields: [name, project, first],
      submit: "Save",
      run: async () => {
        const fields = {
          name: /** @type {HTMLInputElement} */ (name.input).value,
          project: /** @type {HTMLSelectElement} */ (project.input).value,
          is_default: usual.input.checked,
        };
        const saved = view
          ? await views.change(view.id, fields)
          : await views.create({ ...fields, ...savedOf(now()) });
        if (!view) this.#chosen = saved.id;
        done?.();
      },
    });
  }
}

/**
 * @param {string} shape
 * @param {string} label
 * @param {() => void} act
 */
const bare = (shape, label, act) =>
  el("button.btn.bare", { type: "button", "aria-label": label, title: label, onclick: act }, icon(shape));
