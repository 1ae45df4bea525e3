/** Shows notifications of the browser channel, if the user allowed them, each once. */

const KEY = "tocsin.notified";

/**
 * @typedef {{ permission: () => string, show: (title: string, body: string, tag: string, address: string) =>
 *   unknown }} Shower
 */
/**
 * @typedef {{ notes: (after: string | null) => Promise<{ items: BrowserNote[], next: string | null }> }}
 *   Source
 */

export class Notifier {
  /**
   * @param {Source} source
   * @param {Shower} shower
   * @param {Pick<Storage, "getItem" | "setItem"> | null} storage
   * @param {(note: BrowserNote) => { body: string, address: string, tag: string }} words
   */
  constructor(source, shower, storage, words) {
    this.source = source;
    this.shower = shower;
    this.storage = storage;
    this.words = words;
    this.cursor = /** @type {string | null} */ (this.#kept());
  }

  /**
   * Notifications from before the page was opened are not shown; the log and the inbox list them. Those
   * missed during a disconnect are shown.
   *
   * @param {boolean} again the page was connected before
   */
  async catchUp(again) {
    const { items, next } = await this.source.notes(again ? this.cursor : null);
    if (again) for (const note of items) this.receive(note);
    else if (next !== null && (this.cursor === null || next > this.cursor)) this.#keep(next);
  }

  /** @param {BrowserNote} note */
  receive(note) {
    if (this.cursor !== null && note.id <= this.cursor) return;
    this.#keep(note.id);
    if (this.shower.permission() !== "granted") return;
    const { body, address, tag } = this.words(note);
    this.shower.show(note.title, body, tag || note.id, address);
  }

  /** @param {string} id */
  #keep(id) {
    this.cursor = id;
    try {
      this.storage?.setItem(KEY, id);
    } catch {
      /* then it holds for this page only */
    }
  }

  #kept() {
    try {
      return this.storage?.getItem(KEY) ?? null;
    } catch {
      return null;
    }
  }
}
