/**
 * Event log, as filtered: the newest page, read again every two seconds and merged, and older
 * pages as they are asked for. Also says how old that knowledge is, as a feed does (js/live/staleness_badge.js).
 */
import { api } from "../api.js";

const PERIOD_MS = 2_000;
/** A reading may be late by this much; one that failed makes what is shown old sooner. */
const STALE_AFTER_MS = 6_000;
const STALE_AFTER_FAILURE_MS = 3_000;
const PAGE = 100;
/** The server answered that the filters are wrong: asking again says the same. */
const WRONG_FILTERS = [400, 404];

/**
 * @typedef {{id: number, at: string, kind: string, state: string, fleet: string | null, fleet_exists: boolean,
 *   replica: string | null, replica_exists: boolean, revision: number | null, text: string, actor: string,
 *   write: string | null}} Event
 */

export class EventLog {
  /** @param {(added: number) => void} changed `added`: new ones at the top since the last call */
  constructor(changed) {
    this.changed = changed;
    this.#forget();
    /** @type {"connecting" | "live" | "stale"} */
    this.liveness = "connecting";
    this.reason = "";
    this.ended = "";
    this.failures = 0;
    this.seenAt = 0;
    this.query = new URLSearchParams();
    this.generation = 0;
    this.timer = 0;
  }

  start() {
    document.addEventListener("visibilitychange", () => document.hidden || this.#refresh());
    addEventListener("online", () => this.#refresh());
    setInterval(() => this.#judge(), 250);
  }

  /** Other filters: everything is read anew. @param {URLSearchParams} query */
  open(query) {
    this.query = query;
    this.#forget();
    this.generation++;
    this.#refresh();
  }

  #forget() {
    /** Newest first; null: not read yet. @type {Event[] | null} */
    this.list = null;
    /** Address of the older page; null: there is none. @type {string | null} */
    this.next = null;
    this.problem = "";
    /** The filters are what is wrong. */
    this.refused = false;
    this.olderProblem = "";
    this.readingOlder = false;
  }

  ageMs() {
    return this.seenAt ? performance.now() - this.seenAt : null;
  }

  async #refresh() {
    clearTimeout(this.timer);
    const generation = this.generation;
    let added = 0;
    try {
      const { data } = await api("GET", `/events?${this.#with({ page_size: String(PAGE) })}`);
      if (generation !== this.generation) return;
      added = this.#merge(data.results, data.next);
      this.problem = "";
      this.refused = false;
      this.#answered();
    } catch (error) {
      if (generation !== this.generation) return;
      this.#failed(/** @type {import("../api.js").ApiProblem} */ (error));
    }
    this.#judge();
    this.changed(added);
    if (this.ended || this.refused) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (document.hidden ? undefined : this.#refresh()), PERIOD_MS);
  }

  again() {
    this.#refresh();
  }

  async older() {
    if (!this.next || this.readingOlder) return;
    const generation = this.generation;
    this.readingOlder = true;
    this.changed(0);
    try {
      const { data } = await api("GET", `/events${new URL(this.next).search}`);
      if (generation !== this.generation) return;
      this.list = sorted([...(this.list ?? []), ...data.results]);
      this.next = data.next;
      this.olderProblem = "";
    } catch (error) {
      if (generation !== this.generation) return;
      this.olderProblem = /** @type {Error} */ (error).message;
    }
    this.readingOlder = false;
    this.changed(0);
  }

  /**
   * Answers how many were not known. A page that shares nothing with what is known has left some out between:
   * it begins the list anew.
   * @param {Event[]} page @param {string | null} next
   */
  #merge(page, next) {
    const known = new Set(this.list?.map((event) => event.id));
    const news = page.filter((event) => !known.has(event.id));
    const first = this.list === null;
    if (first || (this.list?.length && news.length === page.length && next)) {
      this.list = page;
      this.next = next;
    } else if (news.length) {
      this.list = sorted([...news, ...(this.list ?? [])]);
    }
    return first ? 0 : news.length;
  }

  #answered() {
    this.failures = 0;
    this.seenAt = performance.now();
  }

  /** @param {import("../api.js").ApiProblem} error */
  #failed(error) {
    this.problem = error.message;
    this.refused = WRONG_FILTERS.includes(error.status);
    if (this.refused) this.#answered();
    else this.failures++;
    if (error.status === 401 || error.status === 403) this.ended = "signed out";
  }

  #judge() {
    const old = this.ageMs();
    const before = this.liveness;
    if (this.ended) [this.liveness, this.reason] = ["stale", this.ended];
    else if (old === null) this.liveness = "connecting";
    else if (old <= (this.failures ? STALE_AFTER_FAILURE_MS : STALE_AFTER_MS)) this.liveness = "live";
    else [this.liveness, this.reason] = ["stale", "trying again"];
    if (before !== this.liveness) this.changed(0);
  }

  /** @param {Record<string, string>} more */
  #with(more) {
    return new URLSearchParams([...this.query, ...Object.entries(more)]);
  }
}

/** Newest first; the same moment: by number. @param {Event[]} list */
function sorted(list) {
  const once = [...new Map(list.map((event) => [event.id, event])).values()];
  return once.sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.id - a.id);
}
