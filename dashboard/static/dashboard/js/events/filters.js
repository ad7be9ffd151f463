/** Filter state, kept in the page's address with the API's parameter names, so that a link can be shared. */

export const NAMES = /** @type {const} */ (["fleet", "replica", "kind", "actor", "since", "until", "search"]);

/** @typedef {Record<typeof NAMES[number], string>} Wanted every one a string; empty: not narrowed */

export class Filters {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.wanted = this.#read();
    addEventListener("popstate", () => {
      this.wanted = this.#read();
      this.changed();
    });
  }

  /** @returns {Wanted} */
  #read() {
    const asked = new URLSearchParams(location.search);
    return /** @type {Wanted} */ (Object.fromEntries(NAMES.map((name) => [name, asked.get(name)?.trim() ?? ""])));
  }

  /** @param {Partial<Wanted>} change */
  set(change) {
    const wanted = { ...this.wanted, ...change };
    if (NAMES.every((name) => wanted[name] === this.wanted[name])) return;
    this.wanted = wanted;
    const query = this.query().toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
    this.changed();
  }

  clear() {
    this.set(/** @type {Wanted} */ (Object.fromEntries(NAMES.map((name) => [name, ""]))));
  }

  /** What is not empty, in the order of NAMES. */
  query() {
    return new URLSearchParams(NAMES.filter((name) => this.wanted[name]).map((name) => [name, this.wanted[name]]));
  }

  get any() {
    return NAMES.some((name) => this.wanted[name]);
  }

  /** Kinds that are chosen; none: all are shown. */
  kinds() {
    return this.wanted.kind.split(",").filter(Boolean);
  }

  /** @param {string} kind */
  toggleKind(kind) {
    const kinds = this.kinds();
    const next = kinds.includes(kind) ? kinds.filter((one) => one !== kind) : [...kinds, kind];
    this.set({ kind: next.join(",") });
  }
}
