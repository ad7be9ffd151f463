/** Forms that change a fleet's names and probe, and delete it: typing its name confirms. */
import { api, curl } from "../api.js";
import { rolloutStatus } from "../fleet/rollout_status.js";
import { plural, rate, text } from "../format.js";
import { html } from "../html.js";
import { Draft } from "./draft.js";
import { TextEntry } from "./fields.js";
import { bodyOf, fieldOf, FleetFields, valuesOf } from "./fleet_fields.js";
import { FormPanel } from "./form_panel.js";

export class FleetSettings {
  /** @param {string} name @param {import("../fleet/heading.js").Heading} heading @param {() => void} changed */
  constructor(name, heading, changed) {
    this.name = name;
    this.heading = heading;
    this.path = `/fleets/${name}`;
    this.draft = new Draft("fleet", valuesOf({}), changed, fieldOf);
    this.deletion = new Draft("delete-fleet", { confirm: "" }, changed);
    this.changed = changed;
    /** @type {string | null} */
    this.etag = null;
    this.known = false;
    this.problem = "";
    /** @type {import("../fleet/rollout_status.js").Outcome | null} */
    this.result = null;
  }

  /** As it is now; what was typed and not sent stays. */
  async read() {
    try {
      const { data, etag } = await api("GET", this.path);
      this.problem = "";
      if (!this.known || !this.draft.dirty()) this.#store(data, etag);
    } catch (error) {
      this.problem = /** @type {Error} */ (error).message;
    }
    this.changed();
  }

  /** @param {any} data @param {string | null} etag */
  #store(data, etag) {
    this.known = true;
    this.etag = etag;
    this.draft.reset(valuesOf(data));
    this.heading.saved(data);
  }

  async save() {
    this.result = null;
    const answer = await this.draft.send("PATCH", this.path, bodyOf(this.draft, false), { etag: this.etag });
    if (!answer) return this.draft.status === 412 ? this.#meanwhile() : undefined;
    this.result = rolloutStatus(answer.data, "saved");
    this.#store(answer.data, answer.etag);
    this.changed();
  }

  /** Somebody else was first: their values where nothing was typed, and what was typed stays. */
  async #meanwhile() {
    try {
      const { data, etag } = await api("GET", this.path);
      this.etag = etag;
      this.draft.rebase(valuesOf(data));
      this.draft.problem = "Somebody else changed this meanwhile. What they set is shown now, except where you typed: save again to keep yours.";
    } catch {
      // What the API said of it stays.
    }
    this.changed();
  }

  /** Begins again with what is stored now. */
  discard() {
    this.draft.reset();
    this.known = false;
    this.read();
  }

  async remove() {
    const typed = this.deletion.text("confirm");
    if (await this.deletion.send("DELETE", `${this.path}?confirm=${encodeURIComponent(typed)}`)) location.assign("/");
  }
}

/** @param {{settings: FleetSettings, close: () => void, remove: () => void}} props `remove`: opens the form that deletes it */
export function EditFleet({ settings, close, remove }) {
  const { draft, problem, known, result } = settings;
  if (!known) return html`<section class="panel">${problem ? html`<p class="problem" role="alert">The fleet could not be read: ${problem}</p>` : html`<p class="muted">Reading the fleet …</p>`}</section>`;
  const body = bodyOf(draft, false);
  return html`<${FormPanel} title=${`Fleet ${settings.name}`} draft=${draft} action="Save" ready=${draft.dirty()} submit=${() => settings.save()} close=${close}
    command=${curl("PATCH", settings.path, body)} result=${result && html`<span class=${result.everywhere ? "applied" : "is-unready"}>${result.text}</span>`}
    tools=${html`${draft.dirty() && html`<button type="button" onClick=${() => settings.discard()}>Discard</button>`}
      <button type="button" class="danger" onClick=${remove}>Delete fleet …</button>`}>
    <div class="form"><${FleetFields} draft=${draft} /></div>
  <//>`;
}

/** @param {{settings: FleetSettings, close: () => void, frame: import("../frames.js").FleetFrame | null}} props */
export function DeleteFleet({ settings, close, frame }) {
  const { deletion, name } = settings;
  const now = frame && html` It serves <b>${text(rate(frame.summary.rps))}</b> now, with <b>${frame.summary.in_flight}</b> in flight.`;
  return html`<${FormPanel} title=${`Delete fleet ${name}`} draft=${deletion} danger action=${`Delete ${name}`} ready=${deletion.text("confirm") === name}
    submit=${() => settings.remove()} close=${close} command=${curl("DELETE", `${settings.path}?confirm=${name}`)}>
    <p>Deletes ${name}${frame && html` with its <b>${plural(frame.summary.replicas, "replica")}</b>`} and all revisions, permanently.${now}
      ${" "}Requests in flight finish; new ones that name it are refused. The model servers keep running.</p>
    <div class="form"><${TextEntry} draft=${deletion} name="confirm" label=${`Type ${name} to confirm`} placeholder=${name} /></div>
  <//>`;
}
