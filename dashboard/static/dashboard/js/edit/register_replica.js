/** Form that registers a replica: a trial probe at once, then its state, live. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { State } from "../components/state.js";
import { Draft } from "./draft.js";
import { TextEntry } from "./fields.js";
import { AcceleratorOptions } from "./accelerator_options.js";
import { HardwareClassOptions } from "./hardware_class_options.js";
import { MemoryFields } from "./memory_fields.js";
import { suggestedName } from "./suggested_name.js";
import { FormPanel } from "./form_panel.js";
import { ReplicaFields, sent, shownValues, trialOf } from "./replica_fields.js";
import { TrialProbe, TrialProbeResult } from "./trial_probe.js";

/** A new replica is active. */
const EMPTY = shownValues({}, "admin_state");
const REQUIRED = ["name", "url"];

export class Registration {
  /** @param {string} fleet @param {() => string[]} taken names that the fleet has @param {() => void} changed */
  constructor(fleet, taken, changed) {
    this.path = `/fleets/${fleet}/replicas`;
    this.fleet = fleet;
    this.taken = taken;
    this.draft = new Draft("register", EMPTY, changed);
    this.trial = new TrialProbe(this.draft, () => trialOf(fleet, this.draft));
    this.classes = new HardwareClassOptions(changed);
    this.devices = new AcceleratorOptions(changed);
    /** Name that was suggested last; another one in the field was typed. */
    this.suggestion = "";
    /** @type {{name: string, words: string} | null} */
    this.registered = null;
    /** What became of giving the fleet another probe. */
    this.probed = "";
  }

  /** Once its form opens. */
  open() {
    this.classes.read();
    this.devices.read();
  }

  urlTyped() {
    const { draft } = this;
    if (draft.text("name") !== this.suggestion) return;
    this.suggestion = suggestedName(draft.text("url"), this.taken());
    draft.set("name", this.suggestion);
  }

  body() {
    const { draft } = this;
    /** @type {Record<string, unknown>} */
    const body = {};
    for (const name of Object.keys(EMPTY)) if (draft.text(name) || REQUIRED.includes(name)) body[name] = sent(draft, name);
    return body;
  }

  async submit() {
    this.registered = null;
    this.probed = "";
    // What the trial has just seen, or is about to see, need not be asked again.
    const tried = this.trial.fresh() ? this.trial.found : null;
    const asked = tried !== null || this.trial.busy;
    const answer = await this.draft.send("POST", this.path + (asked ? "?trial=no" : ""), this.body(), { taken: "name" });
    if (!answer) return;
    const found = tried ?? answer.data.trial;
    this.registered = { name: answer.data.name, words: found ? found.words : "" };
    this.suggestion = "";
    this.trial.forget();
    this.draft.reset(EMPTY);
    document.getElementById("register-url")?.focus();
  }

  /** All replicas of the fleet are then probed so. @param {Record<string, any>} probe */
  async probeSo(probe) {
    if (!(await this.draft.send("PATCH", `/fleets/${this.fleet}`, { probe }))) return;
    this.probed = "The fleet uses this probe from now on.";
    this.trial.run();
  }
}

/**
 * @param {{registration: Registration, close: () => void, live: (name: string) => import("../frames.js").ReplicaLive | undefined}} props
 *   `live`: what the newest frame says of a replica
 */
export function RegisterReplica({ registration, close, live }) {
  const { draft, trial, classes, devices } = registration;
  const example = { name: "a", url: "http://10.0.0.1:8000" };
  const body = registration.body();
  const shown = { ...body, name: body.name || example.name, url: body.url || example.url };
  return html`<${FormPanel} title=${`Register a replica of ${registration.fleet}`} draft=${draft} action="Register" close=${close}
    submit=${() => registration.submit()} command=${curl("POST", registration.path, shown)} result=${html`<${Registered} registration=${registration} live=${live} />`}
    tools=${html`<button type="button" disabled=${draft.busy || trial.busy} aria-busy=${trial.busy} onClick=${() => trial.run()}>Try</button>`}>
    <div class="form">
      <${TextEntry} draft=${draft} name="url" label="URL" placeholder=${example.url} inputmode="url" required help="The model server's base URL, as the proxies reach it."
        onInput=${() => registration.urlTyped()} onBlur=${() => trial.again()} />
      <${TextEntry} draft=${draft} name="name" label="Name" placeholder="a" required help="Unique in its fleet, and named in every response. It cannot be changed later." />
      <${ReplicaFields} draft=${draft} classes=${classes} />
      <${MemoryFields} draft=${draft} devices=${devices.list} />
      <${TrialProbeResult} trial=${trial} use=${(/** @type {any} */ probe) => registration.probeSo(probe)} useWords="Use this probe for the fleet" />
    </div>
  <//>`;
}

/** @param {{registration: Registration, live: (name: string) => import("../frames.js").ReplicaLive | undefined}} props */
function Registered({ registration: { registered, probed }, live }) {
  if (!registered) return probed && html`<span class="applied">${probed}</span>`;
  const seen = live(registered.name);
  return html`<b>${registered.name}</b> is registered. ${seen ? html`<${State} state=${seen.state} /> <span class="muted">${seen.why}</span>` : html`<span class="muted">${registered.words || "Waiting for its first probe …"}</span>`}`;
}
