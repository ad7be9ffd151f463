/** Policy settings besides the strategy (concurrency, queue, locality, objective): the unsaved change. */
import { numeric } from "../edit/draft.js";

/** Where a value stands in a policy. @typedef {"max_concurrency" | `${"queue" | "locality" | "slo"}.${string}`} Name */

/** @param {any} stored the policy @param {Name} name */
function storedText(stored, name) {
  return String(name.split(".").reduce((section, key) => section[key], stored) ?? "");
}

export class PolicySettings {
  /** What was typed and differs. @type {Record<Name, string>} */
  #typed = /** @type {any} */ ({});

  get dirty() {
    return Object.keys(this.#typed).length > 0;
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
    return body;
  }
}
