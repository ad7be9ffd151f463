/** Table of replicas: state and reason, load, latency, and the actions. */
import { age, duration, share } from "../format.js";
import { EditReplica } from "../edit/edit_replica.js";
import { html, useState } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Meter } from "../components/meter.js";
import { Quantity } from "../components/quantity.js";
import { VirtualRows } from "../components/virtual_rows.js";
import { matches } from "../components/search.js";
import { Sparkline } from "../components/sparkline.js";
import { State } from "../components/state.js";
import { AdminButton } from "./admin_button.js";
import { LastAction } from "./commands.js";
import { DrainForm } from "./drain_form.js";
import { ProbeResults } from "./probe_results.js";
import { ReplicaOwner } from "./replica_owner.js";
import { RowNotes } from "./row_notes.js";
import { Learned } from "./learned.js";
import { WeightButton, WeightForm } from "./weight.js";

const ROW_PX = 51;
const COLUMNS = 10;
/** Busy, and at least this much slower than the middle replica: said in colour. */
const SLOW_FACTOR = 3;

/** @typedef {import("../frames.js").ReplicaLive} ReplicaLive */
/** @typedef {{model: import("./model.js").FleetModel, actions: import("./row_actions.js").RowActions}} Shared */

/** @param {Shared & {search: string, sources: import("../sources/sources.js").Sources}} props */
export function ReplicaTable({ model, actions, edits, sources, search }) {
  const frame = /** @type {import("../frames.js").FleetFrame} */ (model.frame);
  const found = frame.replicas.filter((replica) => matches(search, words(replica, model)));
  const middle = median(frame.replicas.map((replica) => replica.p99_s));
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Replicas">
      <table class="cards">
        <thead><tr>
          <th scope="col">Replica</th><th scope="col">State</th><th scope="col">Hardware</th><th scope="col" class="num">Weight</th>
          <th scope="col" class="num">Share</th><th scope="col">In flight</th><th scope="col" class="num">p50</th><th scope="col" class="num">p99</th>
          <th class="sparkline"><span class="visually-hidden">p99, since this page was opened</span></th><th><span class="visually-hidden">Actions</span></th>
        </tr></thead>
        ${found.length
          ? html`<${VirtualRows} items=${found} height=${ROW_PX} columns=${COLUMNS} row=${(/** @type {ReplicaLive} */ replica) =>
              html`<${ReplicaRow} key=${replica.name} replica=${replica} middle=${middle} model=${model} actions=${actions} edits=${edits} sources=${sources} />`} />`
          : html`<tbody><tr><td colspan=${COLUMNS} class="muted full">No replica matches “${search}”.</td></tr></tbody>`}
      </table>
    </div>
    <${Removed} actions=${actions} />
    <${LastAction} actions=${actions} first=${frame.replicas[0].name} />
  </section>`;
}

/** @param {Shared & {replica: ReplicaLive, middle: number | null, sources: import("../sources/sources.js").Sources}} props */
function ReplicaRow({ replica, middle, model, actions, edits, sources }) {
  const settings = model.settings.get(replica.name);
  const [weighing, weigh] = useState(false);
  const [asking, ask] = useState(false);
  const [probes, showProbes] = useState(false);
  // The dialog is about one that is active; what was asked is answered by whoever drains it.
  const draining = asking && actions.adminState(replica) === "active";
  const slow = middle !== null && replica.p99_s !== null && replica.p99_s > SLOW_FACTOR * middle;
  return html`<tr data-replica=${replica.name}>
    <td class="half"><${Name} name=${replica.name} settings=${settings} edits=${edits} /><span class="sub mono">${settings ? hostOf(settings.url) : " "}</span><${ReplicaOwner} by=${settings?.managed_by} sources=${sources} /></td>
    <td class="half wrap"><${StateCell} replica=${replica} actions=${actions} open=${probes} onOpen=${() => showProbes(!probes)} /></td>
    <td data-label="Hardware">${settings?.hardware ?? html`<span class="muted">–</span>`}${settings?.site && html`<span class="sub clipped" title=${`At site ${settings.site}`}>at ${settings.site}</span>`}${settings?.version && html`<span class="sub clipped" title=${`Version ${settings.version} of the model`}>version ${settings.version}</span>`}<${Adapters} names=${settings?.adapters} /></td>
    <td class="num" data-label="Weight"><${WeightButton} replica=${replica} own=${settings?.weight} open=${weighing} onOpen=${() => weigh(true)} /></td>
    <td class="num" data-label="Share" data-cell="share"><${Quantity} of=${share(replica.share_percent)} /></td>
    <td class="half" data-label="In flight" data-cell="in-flight"><${Meter} value=${replica.in_flight} capacity=${replica.max_concurrency} loud=${replica.ejected} /><${Reported} load=${replica.reported} /></td>
    <td class="num" data-label="p50" data-cell="p50"><${Quantity} of=${duration(replica.p50_s)} /><span class="sub">${"\u00a0"}</span></td>
    <td class=${`num${slow ? " is-down" : ""}`} data-label="p99"><${Quantity} of=${duration(replica.p99_s)} /><${Learned} learned=${replica.learned} /></td>
    <td class="sparkline"><${Sparkline} values=${model.slow.of(replica.name)} tone="slow" /></td>
    <td class="actions full"><${AdminButton} replica=${replica} actions=${actions} open=${draining} onOpen=${() => ask(!draining)} /></td>
  </tr>
  <${RowNotes} replica=${replica} frame=${model.frame} actions=${actions}
    form=${form()} />`;

  function form() {
    if (edits.open === replica.name) return html`<${EditReplica} edits=${edits} replica=${replica} others=${others(model, replica.name)} />`;
    if (probes) return html`<${ProbeResults} fleet=${actions.fleet} name=${replica.name} onClose=${() => showProbes(false)} />`;
    if (draining) return html`<${DrainForm} replica=${replica} actions=${actions} onClose=${() => ask(false)} />`;
    return weighing && html`<${WeightForm} replica=${replica} actions=${actions} onClose=${() => weigh(false)} />`;
  }
}

/** What the replica says itself: everybody's requests, and only now and then. @param {{load: ReplicaLive["reported"]}} props */
function Reported({ load }) {
  if (!load?.short) return null;
  const title = `The replica reported ${load.words}, ${age(load.age_s)} ago. Requests of other clients are included.`;
  return html`<span class="sub clipped" title=${title}>reports ${load.short}, ${load.age_s.toFixed(0)} s</span>`;
}

/** Not there where it serves all of its fleet's. @param {{names?: string[] | null}} props */
function Adapters({ names }) {
  if (!names) return null;
  const said = names.join(", ");
  return html`<span class="sub clipped" title=${said ? `Of the fleet's LoRA adapters it serves ${said}` : "It serves none of the fleet's LoRA adapters"}>${said ? `LoRA ${said}` : "no LoRA adapter"}</span>`;
}

/** The name opens the form that changes it. @param {{name: string, settings: any, edits: import("../edit/edit_replica.js").ReplicaEdits}} props */
function Name({ name, settings, edits }) {
  if (!MAY_CHANGE || !settings) return html`<b>${name}</b>`;
  const open = edits.open === name;
  return html`<button type="button" class="weight-button name-button" aria-label=${`Edit ${name}`} title="Click to change or remove it" aria-expanded=${open}
    onClick=${() => (open ? edits.close() : edits.show(settings))}>${name}</button>`;
}

/** What was removed last, while it can be brought back. @param {{actions: import("./row_actions.js").RowActions}} props */
export function Removed({ actions }) {
  const { removed } = actions;
  const left = removed ? removed.until - performance.now() : 0;
  if (!removed || left <= 0) return null;
  const { name } = removed.settings;
  return html`<p class="table-foot removed" role="status"><b>${name}</b> is removed. <button type="button" aria-label=${`Undo the removal of ${name}`} onClick=${() => actions.bringBack()}>Undo · ${Math.ceil(left / 1000)} s</button>
    ${removed.problem && html` <span class="problem">${removed.problem}</span>`}</p>`;
}

/** Eligible replicas besides this one. @param {import("./model.js").FleetModel} model @param {string} name */
function others({ frame }, name) {
  return frame?.replicas.filter((one) => one.eligible && one.name !== name).length ?? 0;
}

/** The reason opens the probe results behind it. @param {{replica: ReplicaLive, actions: import("./row_actions.js").RowActions, open: boolean, onOpen: () => void}} props */
function StateCell({ replica, actions, open, onOpen }) {
  const intent = actions.adminState(replica);
  // Confirmed by the API, and not yet in a frame.
  if (intent !== replica.admin_state) {
    const ahead = intent === "active" ? replica.health : intent;
    return html`<${State} state=${ahead} /><span class="sub">confirmed just now</span>`;
  }
  return html`<${State} state=${replica.state} /><button type="button" class="sub why-button" title="Click for its last probe results" aria-expanded=${open}
    aria-label=${`Probe results of ${replica.name}: ${replica.why}`} onClick=${onOpen}>${replica.why}</button>`;
}

/** @param {ReplicaLive} replica @param {import("./model.js").FleetModel} model */
function words(replica, model) {
  const settings = model.settings.get(replica.name);
  return [replica.name, replica.state, settings?.url ?? "", settings?.hardware ?? "", settings?.site ?? "", settings?.version ?? "", settings?.managed_by?.source ?? "", ...(settings?.accelerators ?? []), ...(settings?.adapters ?? [])];
}

/** @param {string} url */
function hostOf(url) {
  return url.replace(/^https?:\/\//, "");
}

/** @param {(number | null)[]} values */
function median(values) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  return known.length > 2 ? known[known.length >> 1] : null;
}
