/**
 * The menu of the layout of a run page or of a comparison. A project has one of each, for all users; an
 * address that names another keeps it.
 */

import { askedIn } from "../../lib/route.js";
import { announce } from "../announce.js";
import { menu } from "../menu.js";
import { notLoaded } from "../undo.js";

/** @template {{ standard: boolean }} View */
export class LayoutMenu {
  #project = "";
  /** That of the project. */
  saved = "";

  /**
   * @param {Pick<import("../../data/api.js").Api, "layout" | "saveLayout">} api
   * @param {import("../../lib/views/layout.js").LayoutKind<View>} kind
   * @param {{ may: boolean, view: () => View, set: (change: Partial<View>) => void, first: (view: View) =>
   *   void }} source first: shows the layout of the project, and leaves the address
   */
  constructor(api, kind, source) {
    this.api = api;
    this.kind = kind;
    this.source = source;
    this.node = menu("Layout", () => this.#items(), { text: "Layout", shape: "grip" });
  }

  /**
   * Show the layout of the project, unless the address names one.
   *
   * @param {string} project
   */
  async of(project) {
    if (!project || project === this.#project) return;
    this.#project = project;
    try {
      const { layout } = await this.api.layout(project, this.kind.page);
      this.saved = layout;
      if (layout) this.source.first(this.within(this.source.view(), askedIn(location)));
    } catch {
      this.#project = ""; // the page works without it, and asks again with the next details
    }
  }

  /**
   * Return the view of another address of the page: with the layout of the project, unless it names one.
   *
   * @param {View} view
   * @param {string} search
   */
  within(view, search) {
    return this.kind.laidOut(view, search, this.saved);
  }

  /** @returns {import("../menu.js").Item[]} */
  #items() {
    const now = this.kind.text(this.source.view());
    const saved = this.kind.text({ ...this.source.view(), ...this.kind.read(this.saved) });
    return [
      { head: "Layout of charts" },
      ...(this.saved
        ? [
            {
              text: "Layout of the project",
              on: now === saved,
              act: () => this.source.set({ ...this.kind.read(this.saved), standard: false }),
            },
          ]
        : []),
      { text: "Standard layout", on: now === "", act: () => this.#standard() },
      ...(this.source.may && this.#project && now !== saved
        ? [{ text: `Save for project ${this.#project}`, act: () => void this.#save(now).catch(notLoaded) }]
        : []),
    ];
  }

  /** Show the standard layout; the address says so if the project has another. */
  #standard() {
    this.source.set({ ...this.kind.standard, standard: this.saved !== "" });
  }

  /** @param {string} layout */
  async #save(layout) {
    const { ask } = await import("../form.js");
    const project = this.#project;
    ask(`Save the layout for ${project}`, this.kind.words, "Save", async () => {
      await this.api.saveLayout(project, this.kind.page, layout);
      this.saved = layout;
      this.source.set(/** @type {Partial<View>} */ ({ standard: false }));
      this.source.first(this.within(this.source.view(), askedIn(location)));
      announce(`The layout of ${project} was saved`);
    });
  }
}
