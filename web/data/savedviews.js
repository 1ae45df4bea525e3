/** The saved views of the fleet: requests to /api/v1/views. */

export class SavedViews {
  /** @type {SavedView[]} */
  items = [];

  /** @param {Pick<import("./http.js").Http, "ask" | "send">} api */
  constructor(api) {
    this.api = api;
    /** Fulfilled when they were asked for once, even if that failed. */
    this.loaded = new Promise((resolve) => (this.settle = resolve));
  }

  /** Load them; throws ApiError. */
  async load() {
    try {
      this.items = (await this.api.ask("/views")).items;
    } finally {
      this.settle?.(null);
    }
  }

  /**
   * Save a view under a new name.
   *
   * @param {Partial<SavedView>} view
   * @returns {Promise<SavedView>} throws ApiError
   */
  create(view) {
    return this.#send("POST", "/views", view);
  }

  /**
   * @param {string} id
   * @param {Partial<SavedView>} change
   * @returns {Promise<SavedView>} throws ApiError
   */
  change(id, change) {
    return this.#send("PATCH", `/views/${encodeURIComponent(id)}`, change);
  }

  /** @param {string} id */
  remove(id) {
    return this.#send("DELETE", `/views/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Partial<SavedView>} [body]
   * @returns {Promise<SavedView>}
   */
  async #send(method, path, body) {
    const view = await this.api.send(method, path, body);
    await this.load();
    return view;
  }
}
