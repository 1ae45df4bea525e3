/** The groups of a comparison with too many runs for a line each, as the server aggregates them. */

/** Groups of one request. */
const MOST_GROUPS = 500;
/** Groups x series x buckets of one request. */
const MOST_SUMS = 1 << 18;
const MOST_BUCKETS = 200;
const FEWEST_BUCKETS = 50;

/** @typedef {import("../lib/charts/groups.js").Group} Group */

export class GroupSums {
  /** @type {GroupsAnswer | null} */
  answer = null;
  /** @type {Group[]} those of the answer */
  groups = [];
  /** Whether groups that are not shown yet are being aggregated. */
  pending = false;
  #asked = "";
  #x = "step";
  /** @type {AbortController | null} */
  #asking = null;

  /**
   * @param {Pick<import("./api.js").Api, "groups">} api
   * @param {{ changed: () => void, failed: (error: Error) => void }} on
   */
  constructor(api, on) {
    this.api = api;
    this.on = on;
  }

  /**
   * Aggregate these series of these groups, unless that was requested last.
   *
   * @param {Group[]} groups
   * @param {string[]} names
   * @param {StepWindow & { x: string }} axis and the part of it that is visible
   * @param {boolean} [again] in any case
   */
  async want(groups, names, { x, from, to }, again = false) {
    const asked = JSON.stringify([groups.map(({ runs }) => runs), names, x, from, to]);
    if (!groups.length || (asked === this.#asked && !again)) return;
    this.#asked = asked;
    if (x !== this.#x) this.answer = null; // its positions are on another axis
    this.#x = x;
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    this.pending = !again;
    const size = Math.floor(MOST_SUMS / (groups.length * names.length));
    const buckets = Math.max(FEWEST_BUCKETS, Math.min(MOST_BUCKETS, size));
    try {
      if (groups.length > MOST_GROUPS || groups.length * names.length * buckets > MOST_SUMS) {
        throw new RangeError(`There are too many groups: ${groups.length}. Group by fewer settings.`);
      }
      const runs = groups.map((group) => group.runs);
      this.answer = await this.api.groups({ groups: runs, names, buckets, x, from, to }, asking.signal);
      this.groups = groups;
      this.pending = false;
      this.on.changed();
    } catch (error) {
      if (asking.signal.aborted) return;
      this.pending = false;
      this.on.failed(/** @type {Error} */ (error));
    }
  }

  /**
   * Return a series of each group that has it.
   *
   * @param {string} name
   */
  of(name) {
    return this.groups.flatMap((group, i) => {
      const series = this.answer?.groups[i].series[name];
      return series?.runs ? [{ group, series }] : [];
    });
  }

  close() {
    this.#asking?.abort();
    this.#asked = "";
  }
}
