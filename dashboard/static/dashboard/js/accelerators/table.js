/** Table of accelerators: memory, what replicas hold, what requests lease, and the actions. */
import { curl } from "../api.js";
import { bytes } from "../bytes.js";
import { Confirm } from "../edit/confirm.js";
import { plural, text } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { MAY_CHANGE, MAY_OPERATE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { matches } from "../components/search.js";
import { DrainPlace } from "./drain.js";
import { Measured } from "./measured.js";
import { SizeFields } from "./form.js";
import { MemoryMeter } from "./meter.js";
import { PATH } from "./model.js";

const COLUMNS = 7;
/** More replicas than these are counted. */
const LISTED = 5;

/** @typedef {import("./model.js").Accelerator} Accelerator @typedef {import("./model.js").AcceleratorsModel} Model */

/** @param {{model: Model, search: string}} props */
export function Accelerators({ model, search }) {
  const { list, problem } = model.polling;
  return html`${problem && html`<p class="panel problem" role="alert">The accelerators could not be read: ${problem}${list && " Shown is what was read last."} Trying again.</p>`}
    ${list && (list.length ? html`<${Table} model=${model} list=${list} search=${search} />` : html`<${NoAccelerators} done=${model.done} />`)}`;
}

/** @param {{model: Model, list: Accelerator[], search: string}} props */
function Table({ model, list, search }) {
  const found = list.filter((one) => matches(search, [one.name, ...one.replicas.map(({ fleet, replica }) => `${fleet}/${replica}`)]));
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Accelerators">
      <table class="cards">
        <thead><tr><th scope="col">Accelerator</th><th scope="col" class="num">Memory</th><th scope="col">Held all the time</th><th scope="col">Leased now</th><th scope="col">Measured</th><th scope="col">Replicas</th>
          <th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>
          ${found.map((one) => html`<${Row} key=${one.name} one=${one} model=${model} />`)}
          ${!found.length && html`<tr><td colspan=${COLUMNS} class="muted full">No accelerator, and no replica on one, matches “${search}”.</td></tr>`}
        </tbody>
      </table>
    </div>
    <p class="table-foot" role="status">${model.done || `${plural(list.length, "accelerator")}. Replicas hold their weights there all the time; requests lease what is left while they run.`}</p>
  </section>`;
}

/** @param {{one: Accelerator, model: Model}} props */
function Row({ one, model }) {
  const open = model.editing === one.name;
  const drain = model.drain?.accelerator === one.name ? model.drain : null;
  return html`<tr data-accelerator=${one.name}>
      <td class="half"><b>${one.name}</b></td>
      <td class="num half" data-label="Memory">${text(bytes(one.memory_bytes))}<span class="sub">${one.headroom_percent} % kept free</span></td>
      <td class="half" data-label="Held all the time"><${MemoryMeter} value=${one.held_bytes} of=${one.usable_bytes} /></td>
      <td class="half" data-label="Leased now"><${Leased} one=${one} model=${model} /></td>
      <td class="half wrap" data-label="Measured"><${Measured} measured=${model.measured(one)} /></td>
      <td class="half" data-label="Replicas"><${Placed} one=${one} /></td>
      <td class="actions full">${MAY_OPERATE && one.replicas.length > 0 && html`<button type="button" aria-label=${`Drain ${one.name}`} aria-expanded=${drain !== null} onClick=${() => model.openDrain(one)}>Drain …</button>${" "}`}${MAY_CHANGE && html`<button type="button" aria-label=${`Change ${one.name}`} aria-expanded=${open && !model.deleting} onClick=${() => model.open(one, false)}>Change</button>
        ${" "}<button type="button" aria-label=${`Delete ${one.name}`} aria-expanded=${open && model.deleting} onClick=${() => model.open(one, true)}>Delete …</button>`}</td>
    </tr>
    ${drain && html`<tr class="note"><td class="full" colspan=${COLUMNS}><${DrainPlace} drain=${drain} close=${() => model.close()} /></td></tr>`}
    ${open && html`<tr class="note"><td class="full" colspan=${COLUMNS}>${model.deleting ? html`<${Deletion} key="delete" one=${one} model=${model} />` : html`<${Change} key="change" one=${one} model=${model} />`}</td></tr>`}`;
}

/** @param {{one: Accelerator, model: Model}} props */
function Leased({ one, model }) {
  const leased = model.leased(one);
  const left = one.usable_bytes - one.held_bytes;
  if (leased === null) return html`<span class="muted">– of ${text(bytes(left))}</span><span class="sub">${model.feed.liveness === "live" ? "no proxy reports" : "not live"}</span>`;
  const waits = model.live.get(one.name)?.lease_waits ?? 0;
  return html`<${MemoryMeter} value=${leased} of=${left} loud />
    ${waits > 0 && html`<span class="sub"><b class="is-unready">memory was short for ${plural(waits, "request")} in 10 s</b></span>`}`;
}

/** @param {{one: Accelerator}} props */
function Placed({ one: { replicas } }) {
  if (!replicas.length) return html`<span class="muted">none</span>`;
  const more = replicas.length - LISTED;
  return html`${replicas.slice(0, LISTED).map(({ fleet, replica, memory_bytes }) => html`<div key=${`${fleet}/${replica}`}><a class="name" href=${`/fleets/${fleet}?search=${replica}`}>${fleet}/${replica}</a>${" "}
      <span class="muted">${memory_bytes === null ? "memory not set" : text(bytes(memory_bytes))}</span></div>`)}
    ${more > 0 && html`<div class="muted">and ${more} more</div>`}`;
}

/** @param {{one: Accelerator, model: Model}} props */
function Change({ one, model }) {
  const draft = /** @type {import("../edit/draft.js").Draft} */ (model.row);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => form.current?.querySelector("input")?.select(), []);
  const save = (/** @type {SubmitEvent} */ event) => (event.preventDefault(), draft.busy || model.save());
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && model.close();
  return html`<form ref=${form} class="edit in-row" aria-label=${`Change ${one.name}`} noValidate onSubmit=${save} onKeyDown=${leave}>
    <div class="form"><${SizeFields} draft=${draft} /></div>
    <div class="row"><button class="primary" disabled=${draft.busy} aria-busy=${draft.busy}>Save</button><button type="button" onClick=${() => model.close()}>Cancel</button></div>
    ${draft.problem && html`<p class="problem" role="alert">${draft.problem}</p>`}
    <${Copyable} label="The same as a command" text=${curl("PATCH", `${PATH}/${one.name}`, model.changes(draft))} />
  </form>`;
}

/** @param {{one: Accelerator, model: Model}} props */
function Deletion({ one, model }) {
  const { busy, problem } = /** @type {import("../edit/draft.js").Draft} */ (model.row);
  const used = one.replicas.length;
  return html`<${Confirm} action=${`Delete ${one.name}`} busy=${busy} problem=${problem} confirm=${() => model.remove()} close=${() => model.close()} command=${curl("DELETE", `${PATH}/${one.name}`)}>
    <p>${used ? html`<b>${plural(used, "replica")}</b> ${used === 1 ? "runs" : "run"} on it: deleting is refused until none does.` : `Deletes the accelerator ${one.name}. No replica runs on it.`}</p>
  <//>`;
}

/** @param {{done: string}} props */
function NoAccelerators({ done }) {
  return html`<section class="panel empty"><h2>No accelerators yet</h2>
    <p>An accelerator is one device whose memory replicas share, of one fleet or of several. With it, weights that do not fit are refused before they are loaded,
      ${" "}and requests wait or go elsewhere rather than run out of memory. None is needed where each replica has a device of its own.</p>
    ${done && html`<p role="status">${done}</p>`}
    <${Copyable} label="Create an accelerator" text=${curl("POST", PATH, { name: "node1/gpu0", memory_bytes: 85899345920 })} /></section>`;
}
