/**
 * Notes of a run, edited as Markdown with a preview. Concurrent changes are shown and never overwritten
 * unread.
 */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { ApiError } from "../../data/http.js";
import { begun, dirty, joined, kept, met } from "../../lib/drafts.js";
import { icon } from "../icons.js";
import { Prose } from "../markdown.js";
import { button } from "../notice.js";

const LONGEST = 100_000;
/** The preview follows pauses in typing, not every key. */
const PREVIEW_MS = 150;

export class Notes {
  /** @type {import("../../lib/drafts.js").Draft | null} null when the notes are not edited */
  draft = null;
  stands = "";
  busy = false;

  /**
   * @param {{ may: boolean, save: (notes: string, seen: string) => Promise<void>, again: () =>
   *   Promise<string>, parse: import("../markdown.js").Parse }} source again: the current notes on the server
   */
  constructor(source) {
    this.source = source;
    this.reading = new Prose(source.parse);
    this.theirs = new Prose(source.parse);
    this.previewing = new Prose(source.parse);
    this.text = /** @type {HTMLTextAreaElement} */ (
      el("textarea", {
        "aria-label": "Notes in Markdown",
        maxlength: LONGEST,
        rows: 12,
        spellcheck: "true",
        oninput: () => this.#typed(),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      })
    );
    this.preview = el("div.notespreview", { "aria-label": "Preview", role: "region", tabindex: "0" });
    this.meanwhile = el("div.meanwhile", { role: "alert", hidden: true });
    this.failure = el("p.is-critical", { role: "alert", hidden: true });
    this.saving = el(
      "button.btn.primary",
      { type: "button", onclick: () => void this.save() },
      "Save ",
      el("kbd.wide-only", {}, "Ctrl Enter"),
    );
    this.form = el(
      "div.notesform",
      {},
      this.meanwhile,
      el("div.notescols", {}, this.text, this.preview),
      this.failure,
      el(
        "div.row.then",
        {},
        this.saving,
        button("Cancel", () => this.cancel()),
        el(
          "span.micro",
          {},
          "Markdown: # heading, **bold**, `code`, lists, tables, links. HTML is shown as text.",
        ),
      ),
    );
    this.read = el("div");
    this.node = el("div.notes", {}, this.read);
    this.leave = (/** @type {BeforeUnloadEvent} */ event) => {
      if (this.draft && dirty(this.draft)) event.preventDefault();
    };
    addEventListener("beforeunload", this.leave);
  }

  /**
   * The notes on the server.
   *
   * @param {string} notes
   */
  show(notes) {
    const first = !this.read.firstChild;
    if (notes === this.stands && !first) return;
    this.stands = notes;
    if (this.draft) this.#meet(notes);
    const edit = this.source.may ? button(notes ? "Edit" : "Add notes", () => this.edit(), "pen") : null;
    refill(
      this.read,
      edit ? el("div.row.notesbar", {}, edit) : null,
      notes
        ? this.reading.show(notes)
        : el("p.muted", {}, 'No notes yet. You can set them in the script: tocsin.watch(..., notes="…").'),
    );
  }

  edit() {
    this.draft = begun(this.stands);
    refill(this.node, this.form);
    this.#fill();
    this.text.focus();
  }

  cancel() {
    this.draft = null;
    refill(this.node, this.read);
    focusIn(this.read, "button");
  }

  close() {
    removeEventListener("beforeunload", this.leave);
    clearTimeout(this.later);
  }

  async save() {
    if (!this.draft || this.busy || this.draft.theirs !== null) return;
    this.busy = true;
    this.saving.toggleAttribute("disabled", true);
    try {
      await this.source.save(this.draft.text, this.draft.seen);
      this.cancel();
    } catch (error) {
      await this.#refused(/** @type {Error} */ (error));
    } finally {
      this.busy = false;
      this.#state();
    }
  }

  /** @param {Error} error */
  async #refused(error) {
    if (error instanceof ApiError && error.status === 409) {
      try {
        return this.#meet(await this.source.again());
      } catch (again) {
        error = /** @type {Error} */ (again);
      }
    }
    this.failure.hidden = false;
    say(this.failure, `The notes were not saved: ${error.message} Your text stays here.`);
  }

  /** @param {string} stands */
  #meet(stands) {
    if (!this.draft) return;
    this.draft = met(this.draft, stands);
    this.#fill();
  }

  /** Update the page from the draft. */
  #fill() {
    const { draft } = this;
    if (!draft) return;
    if (this.text.value !== draft.text) this.text.value = draft.text;
    this.failure.hidden = true;
    this.meanwhile.hidden = draft.theirs === null;
    if (draft.theirs !== null) {
      refill(
        this.meanwhile,
        el("p", {}, icon("info"), " The notes were changed by another user. Their version:"),
        el(
          "div.theirs",
          { tabindex: "0", role: "region", "aria-label": "Their notes" },
          draft.theirs ? this.theirs.show(draft.theirs) : el("p.muted", {}, "(empty)"),
        ),
        el(
          "div.row.then",
          {},
          button("Keep mine", () => this.#choose(kept(draft))),
          button("Use theirs", () => this.#choose(begun(String(draft.theirs)))),
          button("Combine both", () => this.#choose(joined(draft))),
        ),
      );
    }
    this.#render();
    this.#state();
  }

  /** @param {import("../../lib/drafts.js").Draft} draft */
  #choose(draft) {
    this.draft = draft;
    this.#fill();
    this.text.focus();
  }

  #state() {
    this.saving.toggleAttribute(
      "disabled",
      this.busy || !this.draft || !dirty(this.draft) || this.draft.theirs !== null,
    );
  }

  #typed() {
    if (!this.draft) return;
    this.draft = { ...this.draft, text: this.text.value };
    this.#state();
    clearTimeout(this.later);
    this.later = setTimeout(() => this.#render(), PREVIEW_MS);
  }

  #render() {
    refill(
      this.preview,
      this.text.value ? this.previewing.show(this.text.value) : el("p.muted", {}, "Preview"),
    );
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.save();
    else if (event.key === "Escape" && this.draft && !dirty(this.draft)) this.cancel();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
