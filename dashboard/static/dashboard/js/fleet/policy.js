/** Policy: as stored, the strategies that exist, and the unsaved change. */
import { api, ApiProblem } from "../api.js";
import { rolloutStatus } from "./rollout_status.js";
import { fieldOf, focusFirstError, idOf } from "./field_ids.js";
import { PolicySettings } from "./policy_settings.js";

/**
 * @typedef {{name: string, type: "number" | "integer" | "boolean" | "string", default: any, minimum: number | null,
 *   maximum: number | null, words: string}} Parameter
 * @typedef {{name: string, sentence: string, parameters: Parameter[]}} Strategy
 * @typedef {{number: number, summary: string, actor: string, created_at: string, policy: any,
 *   weights: Record<string, number | null>}} Revision
 */

const REVISIONS_SHOWN = 6;
const MOST_REVISIONS = 1000;

/** The panel's form, by its `id`. */
export const FORM = "policy-form";

export class Policy {
  /** @param {string} fleet @param {() => void} changed */
  constructor(fleet, changed) {
    this.path = `/fleets/${fleet}/policy`;
    this.fleet = fleet;
    this.changed = changed;
    /** @type {Strategy[]} */
    this.strategies = [];
    /** Newest first. @type {Revision[]} */
    this.revisions = [];
    /** Whether there are older ones that are not shown. */
    this.more = false;
    this.shownRevisions = REVISIONS_SHOWN;
    /** Whether the last change made here was going back to a revision. */
    this.restored = false;
    /** @type {any} */
    this.stored = null;
    this.revision = 0;
    /** @type {string | null} */
    this.etag = null;
    /** Chosen strategy and what was typed for its parameters; empty while nothing differs. */
    this.strategy = "";
    /** @type {Record<string, string>} */
    this.typed = {};
    this.settings = new PolicySettings();
    this.busy = false;
    /** @type {import("./rollout_status.js").Outcome | null} */
    this.result = null;
    /** What is wrong and belongs to no field. */
    this.problem = "";
    /** The revision that must be gone back to once more to confirm it, and the token for that. */
    this.asked = { revision: 0, token: "" };
    /** What is wrong with a field, by its `id`. @type {Record<string, string>} */
    this.errors = {};
    /** The revision to go back to after a change made here. */
    this.previous = 0;
  }

  /** Reads both; keeps a draft that was begun. */
  async read() {
    try {
      const revisions = `/fleets/${this.fleet}/revisions?page_size=${this.shownRevisions}`;
      const paths = ["/strategies", this.path, revisions];
      const [strategies, policy, earlier] = await Promise.all(paths.map((path) => api("GET", path)));
      this.strategies = strategies.data;
      this.revisions = earlier.data.results;
      this.more = Boolean(earlier.data.next);
      this.#store(policy);
      this.problem = "";
    } catch (error) {
      this.problem = /** @type {Error} */ (error).message;
    }
    this.changed();
  }

  showAll() {
    this.shownRevisions = MOST_REVISIONS;
    return this.read();
  }

  /** A frame says which revision is in force: read again when it is a newer one than ours. @param {number} revision */
  hint(revision) {
    if (this.stored && revision > this.revision && !this.busy) this.read();
  }

  /** @param {{data: any, etag: string | null}} answer */
  #store({ data, etag }) {
    this.stored = data.policy;
    this.revision = data.revision;
    this.etag = etag;
  }

  /** The strategy whose form is shown. @returns {Strategy | undefined} */
  shown() {
    return this.strategies.find((one) => one.name === (this.strategy || this.stored?.strategy));
  }

  /** What a field shows. @param {Parameter} parameter */
  value(parameter) {
    if (parameter.name in this.typed) return this.typed[parameter.name];
    const kept = this.strategy && this.strategy !== this.stored?.strategy ? {} : this.stored?.parameters;
    return String(kept?.[parameter.name] ?? parameter.default);
  }

  /** @param {string} name */
  choose(name) {
    this.strategy = name === this.stored.strategy ? "" : name;
    this.typed = {};
    this.errors = {};
    this.#touched();
  }

  /** @param {string} name @param {string} value */
  type(name, value) {
    this.typed = { ...this.typed, [name]: value };
    this.#touched(`parameter-${name}`);
  }

  /** @param {import("./policy_settings.js").Name} name @param {string} value */
  set(name, value) {
    this.settings.type(this.stored, name, value);
    this.#touched(idOf(name));
  }

  /** @param {import("./policy_settings.js").Fallback[]} list */
  changeFallback(list) {
    this.settings.changeFallback(this.stored, list);
    // What was wrong may stand elsewhere now.
    const others = Object.entries(this.errors).filter(([id]) => !id.startsWith(idOf("fallback.")));
    this.errors = Object.fromEntries(others);
    this.#touched();
  }

  reset() {
    this.#forget();
    this.errors = {};
    this.#touched();
  }

  #forget() {
    this.strategy = "";
    this.typed = {};
    this.settings.reset();
  }

  /** @param {string} [field] whose `id` it is */
  #touched(field = "") {
    const { [field]: _, ...others } = this.errors;
    this.errors = others;
    this.result = null;
    this.problem = "";
    this.changed();
  }

  dirty() {
    return this.#strategyDirty() || this.settings.dirty;
  }

  #strategyDirty() {
    return Boolean(this.strategy) || Object.keys(this.typed).length > 0;
  }

  /** The change as the API takes it; with nothing chosen, the present strategy. */
  body() {
    return { ...((this.#strategyDirty() || !this.settings.dirty) && this.#strategyBody()), ...this.settings.body() };
  }

  /** @returns {{strategy: string, parameters?: Record<string, unknown>}} */
  #strategyBody() {
    const strategy = this.shown();
    const name = strategy?.name ?? "";
    if (!strategy?.parameters.length) return { strategy: name };
    const parameters = strategy.parameters.map((one) => [one.name, converted(one, this.value(one))]);
    return { strategy: name, parameters: Object.fromEntries(parameters) };
  }

  apply() {
    const before = this.revision;
    this.restored = false;
    return this.#write(() => api("PATCH", this.path, { body: this.body(), etag: this.etag }), before);
  }

  /** As it was at an earlier revision, which makes a new one. @param {number} revision */
  goBack(revision) {
    this.restored = true;
    const confirm = this.asked.revision === revision ? this.asked.token : "";
    this.asked = { revision, token: "" };
    return this.#write(() => api("POST", `/fleets/${this.fleet}/revisions/${revision}/restore`, { confirm }), this.revision);
  }

  /** @param {() => Promise<{data: any, etag: string | null}>} request @param {number} previous */
  async #write(request, previous) {
    this.busy = true;
    this.errors = {};
    try {
      this.#touched();
      const { data } = await request();
      this.previous = data.revision > previous ? previous : 0; // nothing changed: nothing to go back to
      this.#forget();
      const result = rolloutStatus(data, `revision ${data.revision}`);
      await this.read();
      this.result = result;
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.#wrong(error);
    } finally {
      this.busy = false;
      this.changed();
    }
    if (Object.keys(this.errors).length) requestAnimationFrame(() => focusFirstError(FORM));
  }

  /** Each at its field, where it is about what stands there. @param {import("../api.js").ApiProblem} problem */
  #wrong({ message, fields = [], confirm }) {
    this.asked.token = confirm;
    if (this.restored || !fields.length) {
      this.problem = message;
      return;
    }
    const elsewhere = [];
    for (const { pointer, detail } of fields) {
      const field = fieldOf(pointer);
      if (document.getElementById(field)) this.errors[field] = [this.errors[field], detail].filter(Boolean).join("; ");
      else elsewhere.push(`${pointer.slice(1).replaceAll("/", ".")}: ${detail}`.replace(/^: /, ""));
    }
    this.problem = elsewhere.join(" ");
  }
}

/** As its type when it is of that type; else as typed, for the API to say what is wrong. @param {Parameter} parameter @param {string} text */
function converted({ type }, text) {
  if (type === "boolean") return text === "true";
  if (type === "string") return text;
  const number = Number(text.trim().replace(",", "."));
  return text.trim() === "" || !Number.isFinite(number) ? text : number;
}
