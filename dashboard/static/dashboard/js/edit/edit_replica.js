/** Forms in a replica's row that change and remove it. */
import { curl } from "../api.js";
import { plural } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { Copyable } from "../components/copyable.js";
import { ManagedNote } from "../fleet/replica_owner.js";
import { Confirm } from "./confirm.js";
import { Draft } from "./draft.js";
import { SelectEntry, TextEntry } from "./fields.js";
import { FocusRestore } from "./focus_restore.js";
import { MemoryFields } from "./memory_fields.js";
import { NAMES, ReplicaFields, sent, shownValues, trialOf, YES } from "./replica_fields.js";
import { TrialProbe, TrialProbeResult } from "./trial_probe.js";

/** @type {[string, string][]} */
const ADMIN_STATES = [
  ["active", "active"],
  ["draining", "draining: no new requests"],
  ["maintenance", "maintenance: no new requests"],
];

/** @type {[string, string][]} */
const MOVE = [
  ["", "finish there"],
  [YES, "are moved, if they can be continued"],
];

/** What the source of a replica says of it, and the API refuses from anybody else. @type {ReadonlySet<string>} */
const SOURCES_OWN = new Set(NAMES.filter((name) => !["weight", "admin_state", "move"].includes(name)));
/** @type {ReadonlySet<string>} */
const NOTHING = new Set();

/** A name stays as it is. @param {any} replica as the API answers it @returns {import("./draft.js").Values} */
const valuesOf = (replica) => shownValues(replica, "name");

/** Which rows of a fleet are being edited; what was typed stays until it is saved or discarded. */
export class ReplicaEdits {
  /**
   * @param {string} fleet @param {import("../fleet/row_actions.js").RowActions} actions
   * @param {import("./register_replica.js").Registration} registration @param {() => void} changed
   */
  constructor(fleet, actions, { classes, devices }, changed) {
    this.fleet = fleet;
    this.actions = actions;
    this.classes = classes;
    this.devices = devices;
    this.changed = changed;
    /** @type {Map<string, {draft: Draft, trial: TrialProbe}>} */
    this.drafts = new Map();
    /** The row whose form is open, and whether it is the one that removes. */
    this.open = "";
    this.removing = false;
    /** The source that owns the replica of the form. @type {import("../fleet/replica_owner.js").ManagedBy | null} */
    this.managed = null;
    this.focus = new FocusRestore();
  }

  /** @param {any} settings of the replica, as the API answers them */
  show(settings) {
    const { name } = settings;
    const known = this.drafts.get(name);
    if (!known?.draft.dirty()) {
      const draft = new Draft(`edit-${name}`, valuesOf(settings), this.changed);
      this.drafts.set(name, { draft, trial: new TrialProbe(draft, () => trialOf(this.fleet, draft)) });
    }
    this.focus.remember();
    this.open = name;
    this.managed = settings.managed_by;
    const { draft } = /** @type {{draft: Draft}} */ (this.drafts.get(name));
    draft.locked = this.managed ? SOURCES_OWN : NOTHING;
    draft.lockedWhy = this.managed ? `Source ${this.managed.source} says it.` : "";
    this.removing = false;
    this.classes.read();
    this.devices.read();
    this.changed();
  }

  close() {
    this.open = "";
    this.changed();
    this.focus.restore();
  }

  /** @param {boolean} removing */
  remove(removing) {
    this.removing = removing;
    this.changed();
  }

  /** What was changed. @param {Draft} draft @param {"values" | "initial"} [which] as typed, or as it was before */
  body(draft, which = "values") {
    const touched = Object.keys(draft.values).filter((name) => draft.touched(name));
    const source = which === "values" ? draft : new Draft(draft.id, draft.initial, () => {});
    return Object.fromEntries(touched.map((name) => [name, sent(source, name)]));
  }

  /** @param {string} replica */
  async save(replica) {
    const { draft, trial } = /** @type {{draft: Draft, trial: TrialProbe}} */ (this.drafts.get(replica));
    const before = this.body(draft, "initial");
    const answer = await draft.send("PATCH", `/fleets/${this.fleet}/replicas/${replica}`, this.body(draft));
    if (!answer) return;
    draft.reset(valuesOf(answer.data));
    trial.forget();
    this.actions.saved(replica, answer.data, before);
    this.close();
  }
}

/** @param {{edits: ReplicaEdits, replica: import("../frames.js").ReplicaLive, others: number}} props `others`: eligible ones besides it */
export function EditReplica({ edits, replica, others }) {
  const { name } = replica;
  const { draft, trial } = /** @type {{draft: Draft, trial: TrialProbe}} */ (edits.drafts.get(name));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => {
    const first = form.current?.querySelector("input:not(:disabled)");
    if (first instanceof HTMLElement) first.focus();
  }, []);
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && edits.close();
  if (edits.removing) return html`<${RemoveReplica} edits=${edits} replica=${replica} others=${others} />`;
  const save = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (draft.dirty() && !draft.busy) edits.save(name);
  };
  return html`<form ref=${form} class="edit in-row" aria-label=${`Edit ${name}`} noValidate onSubmit=${save} onKeyDown=${leave}>
    <${ManagedNote} by=${edits.managed} />
    <div class="form">
      <${TextEntry} draft=${draft} name="url" label="URL" inputmode="url" required help="Another URL is another instance: its state is checking until a probe passes." />
      <${ReplicaFields} draft=${draft} classes=${edits.classes} />
      <${SelectEntry} draft=${draft} name="admin_state" label="Admin state" options=${ADMIN_STATES} />
      ${draft.text("admin_state") !== "active" && html`<${SelectEntry} draft=${draft} name="move" label="Its streams" options=${MOVE} />`}
      <${MemoryFields} draft=${draft} devices=${edits.devices.list} />
      ${(trial.said.busy || trial.said.found || trial.said.problem) && html`<${TrialProbeResult} trial=${trial} />`}
    </div>
    <div class="row">
      <button class="primary" disabled=${draft.busy || !draft.dirty()} aria-busy=${draft.busy}>Save</button>
      <button type="button" disabled=${trial.busy} onClick=${() => trial.run()}>Try</button>
      ${draft.dirty() && html`<button type="button" onClick=${() => draft.reset()}>Discard</button>`}
      <button type="button" onClick=${() => edits.close()}>Close</button>
      <span class="spacer"></span>
      ${!edits.managed && html`<button type="button" class="danger" onClick=${() => edits.remove(true)}>Remove …</button>`}
    </div>
    ${draft.problem && html`<p class="problem" role="alert">${draft.problem}</p>`}
    <${Copyable} label="The same as a command" text=${curl("PATCH", `/fleets/${edits.fleet}/replicas/${name}`, edits.body(draft))} />
  </form>`;
}

/** @param {{edits: ReplicaEdits, replica: import("../frames.js").ReplicaLive, others: number}} props */
function RemoveReplica({ edits, replica, others }) {
  const { name, in_flight } = replica;
  const remove = async () => {
    if (await edits.actions.remove(name)) edits.close();
  };
  const flying = in_flight ? `its ${plural(in_flight, "request")} in flight ${in_flight === 1 ? "finishes" : "finish"}` : "no request is in flight there";
  const left = others ? `${plural(others, "eligible replica")} ${others === 1 ? "remains" : "remain"}` : "No eligible replica is left: requests are answered with 503";
  return html`<${Confirm} action=${`Remove ${name}`} busy=${edits.actions.of(name).busy} confirm=${remove} close=${() => edits.close()} back=${() => edits.remove(false)}
    command=${curl("DELETE", `/fleets/${edits.fleet}/replicas/${name}`)}>
    <p>Removes <b>${name}</b> from ${edits.fleet}: ${flying}, no new requests go there. ${left}. The model server keeps running.</p>
  <//>`;
}
