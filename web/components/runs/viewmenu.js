/**
 * The menu of saved views of the fleet: show one, save this one, change or delete it.
 *
 * Data: data/savedviews.js; the page says what it shows now and applies a view.
 */

import { isSame, savedOf, viewOf } from "../../lib/views/savedview.js";
import { ask, checkbox, field, formDialog, selectInput, textInput } from "../form.js";
import { menu } from "../menu.js";

/**
 * @typedef {import("../../lib/views/fleetview.js").FleetView} FleetView
 *
 * @typedef {{ views: import("../../data/savedviews.js").SavedViews, now: () => FleetView, projects: () =>
 *   string[], may: boolean, apply: (view: Partial<FleetView>) => void, standard: () => void }} Source
 */

export class ViewMenu {
  /** The view that was shown last, which can be changed. */
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
    const own = current
      ? [
          ...(isSame(current, now)
            ? []
            : [{ text: `Save changes to ${current.name}`, act: () => this.#save(current, now) }]),
          { text: `Edit ${current.name}`, act: () => this.#edit(current) },
          { text: `Delete ${current.name}`, act: () => this.#remove(current) },
        ]
      : [];
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

  /** @param {SavedView} view */
  #remove(view) {
    ask(
      `Delete ${view.name}`,
      "The view is deleted for all users. No run changes.",
      "Delete",
      async () => void (await this.source.views.remove(view.id)),
    );
  }

  /**
   * Ask for name, project and whether it is the default; null saves what is shown as a new view.
   *
   * @param {SavedView | null} view
   */
  #edit(view) {
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
        this.#chosen = saved.id;
      },
    });
  }
}
