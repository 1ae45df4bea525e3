/** Requests to /api/v1. The responses are complete; the socket only delivers changes sooner. */

import { jsonLines } from "../lib/ndjson.js";

/** The problem document of a failed request: subject, expected, got (RFC 9457). */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no response
   * @param {{ title?: string, detail?: string, subject?: unknown, expected?: unknown, got?: unknown }}
   *   problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server responded with ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }
}

/**
 * Return the query string of the parameters that are set.
 *
 * @param {Record<string, string | number | null | undefined>} params
 */
export function query(params) {
  const pairs = Object.entries(params).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return pairs.length ? `?${new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]))}` : "";
}

/** @param {Response} response */
async function problem(response) {
  try {
    const body = await response.json();
    return body && typeof body === "object" ? body : {};
  } catch {
    return { title: `${response.status} ${response.statusText}`.trim() };
  }
}

export class Api {
  /**
   * @param {(input: string, init?: RequestInit) => Promise<Response>} fetch
   * @param {string} base
   */
  constructor(fetch, base = "/api/v1") {
    this.fetch = fetch;
    this.base = base;
  }

  /**
   * @param {string} path
   * @param {RequestInit} [init]
   * @returns {Promise<any>} throws ApiError; AbortError is passed on
   */
  async ask(path, init) {
    const response = await this.#answer(path, init);
    return response.status === 204 ? null : response.json();
  }

  /**
   * @param {string} path
   * @param {RequestInit} [init]
   */
  async #answer(path, init) {
    let response;
    try {
      response = await this.fetch(this.base + path, { headers: { accept: "application/json" }, ...init });
    } catch (error) {
      if (/** @type {Error} */ (error).name === "AbortError") throw error;
      throw new ApiError(0, { title: "No response", detail: "The server does not respond." });
    }
    if (!response.ok) throw new ApiError(response.status, await problem(response));
    return response;
  }

  /**
   * Yield details and series of many runs, in the requested order.
   *
   * @param {{ runs: ({ id: string } & StepWindow)[], names: string[], buckets?: number, details: boolean
   *   }} asked
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<CompareLine>} throws ApiError; AbortError is passed on
   */
  async *compare(asked, signal) {
    const { body } = await this.#answer("/compare", {
      method: "POST",
      body: JSON.stringify(asked),
      headers: { "content-type": "application/json", accept: "application/x-ndjson" },
      signal,
    });
    if (body) yield* jsonLines(body);
  }

  /**
   * Aggregate runs by group.
   *
   * @param {{ groups: string[][], names: string[], buckets: number } & StepWindow} asked
   * @param {AbortSignal} [signal]
   * @returns {Promise<GroupsAnswer>}
   */
  groups(asked, signal) {
    const headers = { "content-type": "application/json", accept: "application/json" };
    return this.ask("/compare/groups", { method: "POST", body: JSON.stringify(asked), headers, signal });
  }

  /** @returns {Promise<Session>} */
  session() {
    return this.ask("/session");
  }

  /**
   * @param {string | null} after
   * @returns {Promise<{ items: RunRow[], next: string | null, now_ms: number }>} one page, newest run first,
   *   without sparklines, which come through the socket
   */
  runs(after = null) {
    return this.ask(`/runs${query({ after, limit: 5000, sparks: "false" })}`);
  }

  /**
   * Return one page of runs with these metrics, without sparklines.
   *
   * @param {string[]} metrics at most 20
   * @param {{ ids?: string[], after?: string | null }} which
   * @returns {Promise<{ items: RunRow[], next: string | null }>}
   */
  runsWith(metrics, { ids = [], after = null }) {
    const asked = [...ids.map((id) => ["ids", id]), ...metrics.map((name) => ["metrics", name])];
    const from = after === null ? [] : [["after", after]];
    return this.ask(`/runs?${new URLSearchParams([["sparks", "false"], ...asked, ...from])}`);
  }

  /** @returns {Promise<{ items: { name: string, runs: number }[], more: boolean }>} most frequent first */
  metricNames() {
    return this.ask("/metric-names?limit=5000");
  }

  /**
   * Return these runs with their sparklines.
   *
   * @param {string[]} ids
   * @returns {Promise<{ items: RunRow[] }>}
   */
  rowsOf(ids) {
    return this.ask(`/runs?${new URLSearchParams(ids.map((id) => ["ids", id]))}`);
  }

  /**
   * Return all runs, page by page.
   *
   * @returns {Promise<{ items: RunRow[], now_ms: number }>}
   */
  async allRuns() {
    let page = await this.runs();
    const items = [...page.items];
    while (page.next) {
      page = await this.runs(page.next);
      items.push(...page.items);
    }
    return { items, now_ms: page.now_ms };
  }

  /**
   * @param {string} id
   * @returns {Promise<RunDetail>}
   */
  run(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}`);
  }

  /**
   * Names are repeated instead of joined, because a name may contain a comma; a single name is sent twice, or
   * the server would split it.
   *
   * @param {string} id
   * @param {string[]} names
   * @param {StepWindow & { buckets?: number }} window
   * @param {AbortSignal} [signal]
   * @returns {Promise<SeriesAnswer>}
   */
  series(id, names, { from, to, buckets }, signal) {
    const asked = new URLSearchParams(
      (names.length === 1 ? [...names, ...names] : names).map((name) => ["names", name]),
    );
    for (const [key, value] of Object.entries({ from: floor(from), to: ceil(to), buckets })) {
      if (value !== null && value !== undefined) asked.set(key, String(value));
    }
    return this.ask(`/runs/${encodeURIComponent(id)}/series?${asked}`, { signal });
  }

  /**
   * Return all events except layer norms, of which there are thousands, and the contents of images.
   *
   * @param {string} id
   * @returns {Promise<{ items: RunEvent[], next: unknown }>}
   */
  events(id) {
    const without = ["layers", "layer-names", "media-content", "console"]
      .map((kind) => `&without=${kind}`)
      .join("");
    return this.ask(`/runs/${encodeURIComponent(id)}/events${query({ limit: 5000 })}${without}`);
  }

  /**
   * Return the checkpoints of a run that still exist, and the last good one.
   *
   * @param {string} id
   * @returns {Promise<CheckpointAnswer>}
   */
  checkpoints(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}/checkpoints`);
  }

  /**
   * Return what a run wrote to its terminal: the newest lines, or those before or after a place.
   *
   * @param {string} id
   * @param {import("../components/runs/consolelog.js").Asked} asked
   * @returns {Promise<ConsoleAnswer>}
   */
  console(id, asked) {
    return this.ask(`/runs/${encodeURIComponent(id)}/console${query(asked)}`);
  }

  /**
   * Return the images, histograms, texts and tables of a run.
   *
   * @param {string} id
   * @returns {Promise<MediaAnswer>}
   */
  media(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}/media`);
  }

  /**
   * Return the address of the content of one of them.
   *
   * @param {string} id
   * @param {string} hash
   */
  mediaUrl(id, hash) {
    return `${this.base}/runs/${encodeURIComponent(id)}/media/${encodeURIComponent(hash)}`;
  }

  /**
   * Return the content of one of them.
   *
   * @param {string} id
   * @param {string} hash
   */
  async mediaContent(id, hash) {
    const response = await this.fetch(this.mediaUrl(id, hash));
    if (!response.ok) throw new ApiError(response.status, await problem(response));
    return response;
  }

  /**
   * Return the gradient norms by layer.
   *
   * @param {string} id
   * @param {StepWindow} window
   * @param {string} series
   * @returns {Promise<import("../lib/charts/heat.js").LayersAnswer>}
   */
  layers(id, { from, to }, series) {
    return this.ask(
      `/runs/${encodeURIComponent(id)}/layers${query({ from: floor(from), to: ceil(to), series })}`,
    );
  }

  /**
   * Return one page of exact records.
   *
   * @param {string} id
   * @param {string[]} names
   * @param {StepWindow} window
   * @param {number} limit
   * @returns {Promise<{ items: RecordRow[], next: string | null }>}
   */
  records(id, names, { from, to }, limit) {
    const asked = new URLSearchParams(
      (names.length === 1 ? [...names, ...names] : names).map((name) => ["names", name]),
    );
    for (const [key, value] of Object.entries({ from: ceil(from), to: floor(to), limit })) {
      if (value !== null) asked.set(key, String(value));
    }
    return this.ask(`/runs/${encodeURIComponent(id)}/records?${asked}`);
  }

  /**
   * @param {{ run?: string, state?: string }} [filter]
   * @returns {Promise<{ items: Alert[] }>}
   */
  alerts(filter = {}) {
    return this.ask(`/alerts${query(filter)}`);
  }

  /**
   * Change a run. `seen` holds the values that the user saw; the server rejects the change if they are
   * outdated.
   *
   * @param {string} id
   * @param {{ archived?: boolean, name?: string, notes?: string, tags?: string[], seen?: { name?: string,
   *   notes?: string, tags?: string[] } }} change
   * @returns {Promise<RunRow>} throws ApiError, 409 if `seen` is outdated
   */
  change(id, change) {
    return this.ask(`/runs/${encodeURIComponent(id)}`, {
      method: "PATCH",
      body: JSON.stringify(change),
      headers: { "content-type": "application/json", accept: "application/json" },
    });
  }

  /**
   * Parse Markdown into nodes to draw.
   *
   * @param {string} text
   * @returns {Promise<{ nodes: MarkdownNode[] }>}
   */
  markdown(text) {
    return this.ask("/markdown", {
      method: "POST",
      body: JSON.stringify({ text }),
      headers: { "content-type": "application/json", accept: "application/json" },
    });
  }

  /**
   * @param {string} id
   * @param {boolean} archived
   * @returns {Promise<RunRow>}
   */
  archive(id, archived) {
    return this.change(id, { archived });
  }

  /**
   * Schedule the deletion of a run in `after_s` seconds; until then `restore` cancels it.
   *
   * @param {string} id
   * @param {number} after_s
   * @returns {Promise<null>}
   */
  remove(id, after_s) {
    return this.ask(`/runs/${encodeURIComponent(id)}${query({ after_s })}`, { method: "DELETE" });
  }

  /**
   * @param {string} id
   * @returns {Promise<RunRow>}
   */
  restore(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}/restore`, { method: "POST" });
  }

  /** @returns {Promise<{ items: { id: string, config: unknown }[] }>} */
  configs() {
    return this.ask("/configs");
  }

  /**
   * Create a link that shows one chart without a login.
   *
   * @param {string} run
   * @param {string} series
   * @param {number} days
   * @returns {Promise<{ path: string, until_ms: number }>}
   */
  embed(run, series, days) {
    return this.ask(`/runs/${encodeURIComponent(run)}/embed`, {
      method: "POST",
      body: JSON.stringify({ series, days }),
      headers: { "content-type": "application/json", accept: "application/json" },
    });
  }

  /**
   * Return the layout of the run pages of a project.
   *
   * @param {string} project
   * @returns {Promise<{ layout: string, author: string, updated_ms: number | null }>}
   */
  layout(project) {
    return this.ask(`/projects/${encodeURIComponent(project)}/layout`);
  }

  /**
   * Save the layout of the run pages of a project.
   *
   * @param {string} project
   * @param {string} layout
   */
  saveLayout(project, layout) {
    return this.ask(`/projects/${encodeURIComponent(project)}/layout`, {
      method: "PUT",
      body: JSON.stringify({ layout }),
      headers: { "content-type": "application/json", accept: "application/json" },
    });
  }

  /** @returns {Promise<{ id: string, token: string }>} */
  makeIngestToken() {
    const body = JSON.stringify({ name: "first training process", scope: "ingest", project: null });
    return this.ask("/tokens", {
      method: "POST",
      body,
      headers: { "content-type": "application/json", accept: "application/json" },
    });
  }

  /**
   * Return the address of a report of one run, or of several compared: one HTML file that needs no server.
   *
   * @param {string[]} ids
   * @param {string[]} [names] series besides the vital signs; the report of a single run holds all series
   */
  report(ids, names = []) {
    if (ids.length === 1) return `${this.base}/runs/${encodeURIComponent(ids[0])}/report`;
    const asked = [...ids.map((id) => ["runs", id]), ...repeated(names).map((name) => ["names", name])];
    return `${this.base}/compare/report?${new URLSearchParams(asked)}`;
  }

  /**
   * Return the address of an incident as one HTML file, or of its postmortem as a ZIP file.
   *
   * @param {string} id
   * @param {"report" | "postmortem"} kind
   */
  incidentFile(id, kind) {
    return `${this.base}/incidents/${encodeURIComponent(id)}/${kind}`;
  }

  /**
   * Return the address of all records as CSV, never downsampled.
   *
   * @param {string} id
   * @param {string[]} [names] only these series
   * @param {StepWindow} [window]
   */
  csv(id, names = [], { from, to } = { from: null, to: null }) {
    const asked = new URLSearchParams(
      (names.length === 1 ? [...names, ...names] : names).map((name) => ["names", name]),
    );
    for (const [key, value] of Object.entries({ from: floor(from), to: ceil(to), format: "csv" })) {
      if (value !== null) asked.set(key, String(value));
    }
    return `${this.base}/runs/${encodeURIComponent(id)}/records?${asked}`;
  }
}

/**
 * The server splits a single name at commas; a repeated name is kept whole.
 *
 * @param {string[]} names
 */
const repeated = (names) => (names.length === 1 ? [...names, ...names] : names);
/** @param {number | null} v */
const floor = (v) => (v === null ? null : Math.floor(v));
/** @param {number | null} v */
const ceil = (v) => (v === null ? null : Math.ceil(v));
