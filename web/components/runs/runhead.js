/** The head of a run page: name and tags, editable in place, and actions on the run. */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { GRACE_S, parseTags, tagsText } from "../../lib/drafts.js";
import { moment, span } from "../../lib/format.js";
import { icon } from "../icons.js";
import { menu } from "../menu.js";
import { button } from "../notice.js";
import { showUndo } from "../undo.js";

/**
 * @typedef {{ api: import("../../data/api.js").Api, may: boolean, changed: (row: RunRow) => void, now: () =>
 *   number }} Source changed: called with the server's response
 */

export class RunHead {
  /** @type {RunRow | null} */
  row = null;

  /**
   * @param {string} id
   * @param {Source} source
   */
  constructor(id, source) {
    this.id = id;
    this.source = source;
    this.name = el("h1", {}, "–");
    this.tags = el("span.row.wide-only.tags");
    this.title = el("div.titlebox", {}, this.name);
    this.deleting = el("p.card.pad.deleting", { role: "status", hidden: true });
    this.actions = source.may ? menu("Run: name, tags, archive, delete", () => this.#items()) : el("span");
    this.keys = { tags: "", deleting: "" };
  }

  /** @param {RunRow} row */
  show(row) {
    this.row = row;
    say(this.name, row.name);
    const tags = JSON.stringify(row.tags);
    if (tags !== this.keys.tags && !this.tags.querySelector("form")) {
      this.keys.tags = tags;
      refill(this.tags, ...row.tags.map((tag) => el("span.chip.tag", {}, tag)));
    }
    this.#leave(row);
  }

  /**
   * For a deleted run: until when deletion can be canceled.
   *
   * @param {RunRow} row
   */
  #leave({ deletion_ms, name }) {
    const left =
      deletion_ms === null || deletion_ms === undefined
        ? null
        : Math.max(0, (deletion_ms - this.source.now()) / 1000);
    const key = left === null ? "" : span(Math.round(left));
    this.deleting.hidden = left === null;
    if (key === this.keys.deleting) return;
    const words = /** @type {HTMLElement | null} */ (this.deleting.querySelector(".words"));
    if (this.keys.deleting && words && key) say(words, sentence(name, key));
    else if (key) {
      refill(
        this.deleting,
        icon("trash"),
        " ",
        el("span.words", { title: moment(deletion_ms) }, sentence(name, key)),
        " ",
        this.source.may ? button("Restore", () => void this.restore()) : null,
      );
    }
    this.keys.deleting = key;
  }

  /** @returns {import("../menu.js").Item[]} */
  #items() {
    const { row } = this;
    const going = row?.deletion_ms !== null && row?.deletion_ms !== undefined;
    return [
      { head: "Run" },
      { text: "Rename", act: () => this.rename() },
      { text: "Edit tags", act: () => this.retag() },
      { text: row?.archived ? "Unarchive" : "Archive", act: () => void this.archive() },
      going
        ? { text: "Restore", act: () => void this.restore() }
        : { text: "Delete", act: () => void this.remove() },
    ];
  }

  rename() {
    const now = this.row?.name ?? "";
    this.#form(this.title, this.name, {
      label: "Name of the run",
      value: now,
      most: 256,
      save: (text) => this.source.api.change(this.id, { name: text, seen: { name: now } }),
    });
  }

  retag() {
    const now = this.row?.tags ?? [];
    this.tags.classList.remove("wide-only");
    this.#form(this.tags, null, {
      label: "Tags, comma separated",
      value: tagsText(now),
      most: 4000,
      save: (text) => this.source.api.change(this.id, { tags: parseTags(text), seen: { tags: now } }),
    });
  }

  /**
   * An input in place of the text it edits.
   *
   * @param {HTMLElement} place
   * @param {HTMLElement | null} shown
   * @param {{ label: string, value: string, most: number, save: (text: string) => Promise<RunRow> }} field
   */
  #form(place, shown, { label, value, most, save }) {
    const input = /** @type {HTMLInputElement} */ (
      el("input", { "aria-label": label, value, maxlength: most, spellcheck: "false", autocomplete: "off" })
    );
    const failure = el("span.is-critical.micro", { role: "alert" });
    const back = () => {
      this.keys.tags = "";
      shown?.classList.remove("vh");
      refill(place, ...(shown ? [shown] : []));
      this.tags.classList.add("wide-only");
      if (this.row) this.show(this.row);
      focusIn(this.actions, ".menubutton");
    };
    const send = async () => {
      try {
        const row = await save(input.value);
        this.row = row;
        back();
        this.source.changed(row);
      } catch (error) {
        say(failure, `${/** @type {Error} */ (error).message}`);
      }
    };
    const form = el(
      "form.row.inline",
      {
        onsubmit: (/** @type {SubmitEvent} */ event) => {
          event.preventDefault();
          void send();
        },
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            back();
          }
        },
      },
      el("label.field", {}, input),
      el("button.btn.primary", { type: "submit" }, "Save"),
      button("Cancel", back),
      failure,
    );
    // The heading stays for screen readers.
    shown?.classList.add("vh");
    refill(place, ...(shown ? [shown] : []), form);
    input.focus();
    input.select();
  }

  async archive() {
    await this.#do(
      "archived",
      () => this.source.api.archive(this.id, !this.row?.archived),
      (row) =>
        showUndo(
          row.archived
            ? `${row.name} is archived. It continues to run, hidden from the fleet.`
            : `${row.name} is back in the fleet.`,
          () => void this.archive(),
        ),
    );
  }

  /** Schedule the deletion for everyone; a click can cancel it for a while. */
  async remove() {
    await this.#do(
      "deleted",
      async () => {
        await this.source.api.remove(this.id, GRACE_S);
        return this.source.api.run(this.id);
      },
      (row) => showUndo(`${row.name} will be deleted in ${span(GRACE_S)}.`, () => void this.restore()),
    );
  }

  async restore() {
    await this.#do(
      "restored",
      () => this.source.api.restore(this.id),
      () => {},
    );
  }

  /**
   * @param {string} done
   * @param {() => Promise<RunRow>} act
   * @param {(row: RunRow) => void} then
   */
  async #do(done, act, then) {
    try {
      const row = await act();
      this.source.changed(row);
      then(row);
    } catch (error) {
      showUndo(`${this.row?.name ?? this.id} was not ${done}: ${/** @type {Error} */ (error).message}`, null);
    }
  }
}

/**
 * @param {string} name
 * @param {string} left
 */
const sentence = (name, left) =>
  `${name} will be deleted in ${left}, with all its records and alerts. Until then you can restore it.`;
