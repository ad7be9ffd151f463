/** How many requests a replica works on at once, and how many wait, for how long: the draft of a change to that. */
import { numeric } from "../edit/draft.js";

/** @typedef {"max_concurrency" | "size" | "timeout_s" | "cold" | "cold_timeout_s" | "at"} Name */

/** @param {any} stored the policy @param {Name} name */
function storedText(stored, name) {
  return String((name === "max_concurrency" ? stored : stored.queue)[name] ?? "");
}

export class Admission {
  /** What was typed and differs. @type {Partial<Record<Name, string>>} */
  #typed = {};

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
    const { max_concurrency: limit, cold, at, ...numbers } = this.#typed;
    const queue = { ...(cold && { cold }), ...(at && { at }), ...Object.fromEntries(Object.entries(numbers).map(([name, text]) => [name, numeric(text.trim())])) };
    return { ...(limit !== undefined && { max_concurrency: numeric(limit.trim()) }), ...(Object.keys(queue).length && { queue }) };
  }
}
