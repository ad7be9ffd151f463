/** Trial probe: probes a URL once, as the health probes will, and shows the result. Writes nothing. */
import { api, ApiProblem } from "../api.js";
import { sentence } from "../format.js";
import { html } from "../html.js";
import { Shape } from "../components/state.js";
import { whenPointerUp } from "./pointer_guard.js";

const PATH = "/trial-probes";
const NOTHING = { busy: false, found: null, problem: "", asked: "" };

/**
 * As POST /trial-probes answers.
 * @typedef {{outcome: "ready" | "unready" | "down" | "refused", words: string, url: string, asked: string, preset: string,
 *   status: number | null, latency_ms: number | null, fits: {probe: Record<string, any>, words: string} | null}} Found
 */

export class TrialProbe {
  /**
   * @param {import("./draft.js").Draft} draft of the form, with a field `url`
   * @param {() => object} how what else the trial is told: the fleet, or protocol, model and probe
   */
  constructor(draft, how) {
    this.draft = draft;
    this.how = how;
    this.busy = false;
    /** @type {Found | null} */
    this.found = null;
    /** What was probed last. */
    this.asked = "";
    this.problem = "";
    /** What the page says of it all. @type {{busy: boolean, found: Found | null, problem: string, asked: string}} */
    this.said = NOTHING;
    /** Number of the trial in progress; results of earlier ones are dropped. */
    this.turn = 0;
  }

  body() {
    return { url: this.draft.text("url"), ...this.how() };
  }

  /** Whether what is known is of what the form now says. */
  fresh() {
    return this.found !== null && this.asked === JSON.stringify(this.body());
  }

  /** Whether the form now says something else than what the words are about. */
  overtaken() {
    const { asked } = this.said;
    return asked !== "" && asked !== JSON.stringify(this.body());
  }

  /** On leaving the field: not of nothing, and not twice of the same. */
  again() {
    if (this.draft.text("url") && this.asked !== JSON.stringify(this.body())) this.run();
  }

  async run() {
    const body = this.body();
    if (this.busy) return;
    if (!body.url) return this.draft.wrong("url", "Enter the model server's URL, for example http://10.0.0.1:8000.");
    const turn = ++this.turn;
    this.busy = true;
    this.asked = JSON.stringify(body);
    this.found = null;
    this.problem = "";
    try {
      this.#changed();
      const { data } = await api("POST", PATH, { body });
      if (turn !== this.turn) return;
      this.found = data;
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      if (turn !== this.turn) return;
      this.#failed(error);
    } finally {
      if (turn === this.turn) {
        this.busy = false;
        this.#changed();
      }
    }
    // The user typed on during the probe: the result is of another address.
    if (this.found && !this.fresh()) this.again();
  }

  /** Its words take more lines or fewer, and buttons stand below them. */
  #changed() {
    const { busy, found, problem, asked } = this;
    whenPointerUp(() => {
      this.said = { busy, found, problem, asked };
      this.draft.changed();
    });
  }

  /** @param {import("../api.js").ApiProblem} problem */
  #failed({ message, fields }) {
    const url = fields.find(({ pointer }) => pointer === "/url");
    if (url) whenPointerUp(() => this.draft.wrong("url", url.detail));
    else this.problem = message;
  }

  forget() {
    this.turn++;
    this.busy = false;
    this.found = null;
    this.asked = "";
    this.problem = "";
    this.said = NOTHING;
  }
}

/**
 * What it saw. `use`: takes the probe that would fit.
 * @param {{trial: TrialProbe, use?: (probe: Record<string, any>) => void, useWords?: string}} props
 */
export function TrialProbeResult({ trial, use, useWords }) {
  const { busy, found, problem } = trial.said;
  if (busy) return html`<div class="trial busy whole" role="status">Asking ${trial.draft.text("url")} …</div>`;
  if (problem && !trial.overtaken()) return html`<div class="trial bad whole" role="alert">The trial probe failed: ${problem}</div>`;
  if (!found) return html`<p class="help whole">When you leave the URL field, the server is probed once. The result is shown here.</p>`;
  if (trial.overtaken()) return html`<div class="trial busy whole" role="status" data-trial="overtaken">These values have not been tried yet.</div>`;
  const good = found.outcome === "ready";
  const shape = { ready: "ready", unready: "unready", down: "down", refused: "down" }[found.outcome];
  return html`<div class=${`trial ${good ? "good" : "bad"} whole`} role="status" data-trial=${found.outcome}>
    <span><span class=${`state is-${shape}`}><${Shape} state=${shape} />${good ? "ready" : found.outcome === "refused" ? "not allowed" : found.outcome}</span> ${sentence(found.words)}
      ${" "}<span class="muted">${found.asked}, preset ${found.preset}</span></span>
    ${found.fits && use && html`<span><button type="button" onClick=${() => use(/** @type {any} */ (found.fits).probe)}>${useWords ?? "Use this probe"}</button>
      <span class="muted"> ${found.fits.words}</span></span>`}
    ${!good && found.outcome !== "refused" && html`<span class="muted">You can register it anyway. Until a probe passes its state is checking, and it gets no requests.</span>`}
  </div>`;
}
