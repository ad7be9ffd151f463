/** Form state: the values typed, the errors from the API, and submitting. It outlives the form: closing it loses nothing. */
import { api, ApiProblem } from "../api.js";
import { sentence } from "../format.js";

/** @typedef {Record<string, string | boolean>} Values */

/**
 * `shown`: as a form shows what the API answers (nothing: not set); `sent`: what was typed, as the API takes it.
 * @typedef {{shown: (value: any) => string, sent: (text: string) => unknown}} Field
 */

/** @param {string} pointer of a wrong field @returns {string} */
function firstPart(pointer) {
  return pointer.split("/")[1] ?? "";
}

export class Draft {
  /**
   * @param {string} id of the form's elements @param {Values} initial @param {() => void} changed
   * @param {(pointer: string) => string} [fieldOf] which field of the form a JSON pointer means
   */
  constructor(id, initial, changed, fieldOf = firstPart) {
    this.id = id;
    this.initial = initial;
    this.changed = changed;
    this.fieldOf = fieldOf;
    /** @type {Values} */
    this.values = { ...initial };
    /** Field → what is wrong with it. @type {Record<string, string>} */
    this.errors = {};
    /** What is wrong and belongs to no field. */
    this.problem = "";
    this.busy = false;
    /** Status of the last refusal; 0: no response. */
    this.status = 0;
    /** Fields that are somebody else's to change. @type {ReadonlySet<string>} */
    this.locked = new Set();
    /** Whose they are, in words. */
    this.lockedWhy = "";
    /** The last change that must be sent once more to confirm it, and its token. */
    this.asked = { what: "", token: "" };
  }

  /** @param {string} name @returns {string} without spaces around it */
  text(name) {
    return String(this.values[name] ?? "").trim();
  }

  /** Whether it cannot be typed into now. @param {string} name */
  fixed(name) {
    return this.busy || this.locked.has(name);
  }

  /** @param {string} name @param {string | boolean} value */
  set(name, value) {
    this.values = { ...this.values, [name]: value };
    const { [name]: _, ...others } = this.errors;
    this.errors = others;
    this.problem = "";
    this.changed();
  }

  /** What is known to be wrong with a field without sending the form. @param {string} name @param {string} words */
  wrong(name, words) {
    this.errors = { ...this.errors, [name]: words };
    this.changed();
  }

  /** Fields as first shown, or as they are now known to be. @param {Values} [initial] */
  reset(initial = this.initial) {
    this.initial = initial;
    this.values = { ...initial };
    this.errors = {};
    this.problem = "";
    this.changed();
  }

  /** What is stored is another than it was: fields that were typed into keep what was typed. @param {Values} stored */
  rebase(stored) {
    const typed = Object.entries(this.values).filter(([name]) => this.touched(name));
    this.initial = stored;
    this.values = { ...stored, ...Object.fromEntries(typed) };
    this.changed();
  }

  /** @param {string} name */
  touched(name) {
    return this.values[name] !== this.initial[name];
  }

  dirty() {
    return Object.keys(this.values).some((name) => this.touched(name));
  }

  /**
   * Answers what the API answered, or null and shows what is wrong, each at its field; the first is focused.
   * @param {string} method @param {string} path @param {unknown} [body]
   * @param {{etag?: string | null, taken?: string}} [options] `taken`: the field that a conflict (409) is about
   * @returns {Promise<{data: any, etag: string | null} | null>}
   */
  async send(method, path, body, { etag, taken = "" } = {}) {
    this.busy = true;
    this.errors = {};
    this.problem = "";
    // Whether it is tried as well (`?trial=no`) may differ the second time, and makes it no other change.
    const what = JSON.stringify([method, path.split("?")[0], body]);
    try {
      this.changed();
      return await api(method, path, { body, etag, confirm: this.asked.what === what ? this.asked.token : "" });
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.asked = { what, token: error.confirm };
      this.#wrong(error, taken);
      requestAnimationFrame(() => this.#focusWrong());
      return null;
    } finally {
      this.busy = false;
      this.changed();
    }
  }

  /** @param {import("../api.js").ApiProblem} problem @param {string} taken */
  #wrong({ status, message, fields }, taken) {
    const elsewhere = [];
    this.status = status;
    for (const { pointer, detail } of fields) {
      const field = this.fieldOf(pointer);
      const before = this.errors[field];
      if (field in this.values) this.errors[field] = (before ? `${sentence(before)} ` : "") + this.#entry(pointer, field) + detail;
      else elsewhere.push(detail);
    }
    if (!fields.length && status === 409 && taken && !this.asked.token) this.errors[taken] = message;
    else if (!fields.length) this.problem = message;
    else this.problem = elsewhere.join(" ");
  }

  /** Which of several in one field: "Entry 2: ". @param {string} pointer `/match/1/host` @param {string} field */
  #entry(pointer, field) {
    const [, first, index] = pointer.split("/");
    return first === field && /^\d+$/.test(index ?? "") && listed(this.text(field)).length > 1 ? `Entry ${Number(index) + 1}: ` : "";
  }

  #focusWrong() {
    const wrong = document.querySelector(`[id^="${this.id}-"][aria-invalid="true"]`);
    if (wrong instanceof HTMLElement) wrong.focus();
  }
}

/** A number as a number; nothing: null; anything else as typed, for the API to say what is wrong. JSON knows no infinite one. @param {string} text */
export function numeric(text) {
  if (text === "") return null;
  const number = Number(text.replace(",", "."));
  return Number.isFinite(number) ? number : text;
}

/** "chat, gpt" → ["chat", "gpt"] @param {string} text */
export function listed(text) {
  return text
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
}
