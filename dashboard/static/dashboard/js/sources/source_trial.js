/** Trial of a source: what it would list now, by name, before it is made or changed. Writes nothing. */
import { ApiProblem, api } from "../api.js";
import { html } from "../html.js";

const SHOWN = 8;

/**
 * As POST …/source-trials answers.
 * @typedef {{answered: boolean, words: string, new: {name: string, url: string, hardware: string | null, site: string}[],
 *   changed: Record<string, string[]>, missing: string[], left_alone: string[], refused: Record<string, string>}} SourceTrialFound
 */

export class SourceTrial {
  /**
   * @param {string} fleet @param {import("../edit/draft.js").Draft} draft of the form
   * @param {() => object} settings the whole source as the form says it
   */
  constructor(fleet, draft, settings) {
    this.path = `/fleets/${fleet}/source-trials`;
    this.draft = draft;
    this.settings = settings;
    this.busy = false;
    /** @type {SourceTrialFound | null} */
    this.found = null;
    this.problem = "";
    /** What was tried last. */
    this.asked = "";
  }

  async run() {
    if (this.busy) return;
    const body = this.settings();
    this.busy = true;
    this.found = null;
    this.problem = "";
    this.asked = JSON.stringify(body);
    this.draft.changed();
    try {
      this.found = (await api("POST", this.path, { body })).data;
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      for (const { pointer, detail } of error.fields) {
        const field = this.draft.fieldOf(pointer);
        if (field in this.draft.values) this.draft.wrong(field, detail);
        else this.problem = detail;
      }
      if (!error.fields.length) this.problem = error.message;
    }
    this.busy = false;
    this.draft.changed();
  }

  forget() {
    this.found = null;
    this.problem = "";
  }

  overtaken() {
    return this.found !== null && this.asked !== JSON.stringify(this.settings());
  }
}

/** @param {{trial: SourceTrial}} props */
export function SourceTrialResult({ trial }) {
  const { busy, found, problem } = trial;
  if (busy) return html`<div class="trial busy" role="status">Looking once, nothing is written …</div>`;
  if (problem) return html`<div class="trial bad" role="alert">${problem}</div>`;
  if (!found) return html`<p class="help">Try it first: it is listed once, and you see what would come in.</p>`;
  if (trial.overtaken()) return html`<div class="trial busy" role="status" data-source-trial="overtaken">These values have not been tried yet.</div>`;
  const good = found.answered && !Object.keys(found.refused).length;
  const news = found.new.map(({ name, url }) => `${name} at ${url}`);
  const changed = Object.entries(found.changed).map(([name, lines]) => `${name}: ${lines.join("; ")}`);
  const refused = Object.entries(found.refused).map(([name, why]) => `${name}: ${why}`);
  return html`<div class=${`trial ${good ? "good" : "bad"}`} role="status" data-source-trial=${found.answered ? "answered" : "silent"}>
    <span>${found.words}</span>
    <${Names} title="Would be registered" names=${news} />
    <${Names} title="Would change" names=${changed} />
    <${Names} title="Would be left out" names=${refused} />
    <${Names} title="Left alone" names=${found.left_alone} />
    <${Names} title="Not among them" names=${found.missing} />
  </div>`;
}

/** @param {{title: string, names: string[]}} props */
function Names({ title, names }) {
  if (!names.length) return "";
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "";
  return html`<span><span class="muted">${title}:</span> ${names.slice(0, SHOWN).join(", ")}${more}</span>`;
}
