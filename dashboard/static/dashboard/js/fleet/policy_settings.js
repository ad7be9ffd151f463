/** Policy settings besides the strategy (concurrency, queue, locality, first tokens, failures): the unsaved change. */
import { numeric } from "../edit/draft.js";

/** @typedef {{fleet: string, causes: string[], included: boolean}} Fallback */
/** Where a value stands in a policy. @typedef {"max_concurrency" | "first_token_limit_s" | "plain_limit_factor" | "continuation" | "fallback_budget_percent" | `${"queue" | "locality" | "slo" | "retries"}.${string}`} Name */

/** @param {any} stored the policy @param {Name} name */
function storedText(stored, name) {
  return String(name.split(".").reduce((section, key) => section[key], stored) ?? "");
}

/** Without the spaces that were typed around names. @param {Fallback[]} list */
function trimmed(list) {
  return list.map((one) => ({ ...one, fleet: one.fleet.trim() }));
}

export class PolicySettings {
  /** What was typed and differs. @type {Record<Name, string>} */
  #typed = /** @type {any} */ ({});

  /** The whole list, if it differs. @type {Fallback[] | null} */
  #fallback = null;

  get dirty() {
    return Object.keys(this.#typed).length > 0 || this.#fallback !== null;
  }

  /** What the list shows. @param {any} stored @returns {Fallback[]} */
  fallback(stored) {
    return this.#fallback ?? stored.fallback;
  }

  /** @param {any} stored @param {Fallback[]} list */
  changeFallback(stored, list) {
    this.#fallback = JSON.stringify(trimmed(list)) === JSON.stringify(stored.fallback) ? null : list;
  }

  /** What a field shows. @param {any} stored @param {Name} name @returns {string} */
  value(stored, name) {
    return this.#typed[name] ?? storedText(stored, name);
  }

  /** @param {any} stored @param {Name} name @param {string} text */
  type(stored, name, text) {
    const { [name]: _, ...others } = this.#typed;
    this.#typed = text.trim() === storedText(stored, name) ? others : { ...others, [name]: text };
  }

  reset() {
    this.#fallback = null;
    this.#typed = {};
  }

  /** The change as the API takes it; an empty field goes back to its default. */
  body() {
    /** @type {Record<string, any>} */
    const body = {};
    for (const [name, text] of Object.entries(this.#typed)) {
      const [first = "", second] = name.split(".");
      const value = numeric(text.trim());
      body[first] = second ? { ...body[first], [second]: value } : value;
    }
    if (this.#fallback) body.fallback = trimmed(this.#fallback);
    return body;
  }
}
