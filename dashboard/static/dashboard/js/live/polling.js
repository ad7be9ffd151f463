/** Polling of a list of the API. On pages without a WebSocket the badge says how old the list is. */
import { api } from "../api.js";
import { age } from "../format.js";

const PERIOD_MS = 5_000;
const STALE_AFTER_MS = 15_000;
const TICK_MS = 500;

export class Polling {
  /** @param {string} path of a list below /api/v1 @param {() => void} changed @param {boolean} [quiet] the badge tells of something else */
  constructor(path, changed, quiet = false) {
    this.path = path;
    this.changed = changed;
    /** Null: not read yet. @type {any[] | null} */
    this.list = null;
    this.problem = "";
    this.readAt = 0;
    this.busy = false;
    this.quiet = quiet;
    this.badge = document.querySelector("[data-badge]");
  }

  start() {
    this.read();
    setInterval(() => document.hidden || this.read(), PERIOD_MS);
    setInterval(() => this.#say(), TICK_MS);
    document.addEventListener("visibilitychange", () => document.hidden || this.read());
  }

  async read() {
    if (this.busy) return;
    this.busy = true;
    try {
      this.list = await allPages(this.path);
      this.problem = "";
      this.readAt = performance.now();
    } catch (error) {
      this.problem = /** @type {Error} */ (error).message;
    }
    this.busy = false;
    this.#say();
    this.changed();
  }

  #say() {
    if (this.quiet) return;
    const old = performance.now() - this.readAt;
    const stale = this.readAt > 0 && old > STALE_AFTER_MS;
    document.documentElement.dataset.live = this.readAt === 0 ? "connecting" : stale ? "stale" : "live";
    const words = this.readAt === 0 ? (this.problem ? "not connected · trying again" : "reading …") : `${stale ? "stale · " : ""}read ${age(old / 1000)} ago`;
    if (this.badge && this.badge.textContent !== words) this.badge.textContent = words;
  }
}

/** All rows of a list that comes in pages. @param {string} path @returns {Promise<any[]>} Throws ApiProblem. */
export async function allPages(path) {
  const rows = [];
  let next = /** @type {string | null} */ (`${path}${path.includes("?") ? "&" : "?"}page_size=500`);
  while (next) {
    const { data } = await api("GET", next);
    rows.push(...data.results);
    next = data.next ? new URL(data.next, location.href).href.split("/api/v1")[1] : null;
  }
  return rows;
}
