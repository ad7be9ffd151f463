/** Form fields of a policy's fallback fleets: an ordered list, each with its causes; and their budget. */
import { html } from "../html.js";
import { allPages } from "../live/polling.js";
import { MAY_OPERATE } from "../may_change.js";
import { errorProps, FieldError } from "./field_error.js";
import { CAUSES } from "./fallback_words.js";
import { idOf } from "./field_ids.js";

/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./policy_settings.js").Fallback} Fallback */

const USUAL = ["no_eligible_replica", "no_place", "replicas_failed", "first_token"];
const FLEETS = "fallback-fleets";

/** The other fleets of the same protocol; null: not read yet. */
class FleetNames {
  /** @type {string[] | null} */
  list = null;

  /** @param {Policy} policy */
  async read(policy) {
    if (this.list) return;
    this.list = [];
    try {
      const fleets = await allPages("/fleets");
      const own = fleets.find(({ name }) => name === policy.fleet);
      this.list = fleets.filter(({ name, protocol }) => name !== policy.fleet && protocol === own?.protocol).map(({ name }) => name);
    } catch {
      this.list = null; // a name can be typed all the same
    }
    policy.changed();
  }
}

const names = new FleetNames();

/** @param {{policy: Policy, children?: any}} props `children`: the budget's field */
export function FallbackFields({ policy, children }) {
  const list = policy.settings.fallback(policy.stored);
  const put = (/** @type {Fallback[]} */ next) => policy.changeFallback(next);
  const add = () => {
    names.read(policy);
    put([...list, { fleet: "", causes: USUAL, included: false }]);
    requestAnimationFrame(() => document.getElementById(idOf(`fallback.${list.length}.fleet`))?.focus());
  };
  return html`<div class="fields" role="group" aria-label="Fallback fleets">
    ${list.map((entry, index) => html`<${Entry} key=${index} policy=${policy} list=${list} index=${index} entry=${entry} put=${put} />`)}
    <div class="parameter"><div class="field"><span>${list.length ? "" : "Fallback fleets: none"}</span>
      <button type="button" disabled=${policy.busy || !MAY_OPERATE} onClick=${add}>${list.length ? "Add another fallback" : "Add a fallback"}</button></div>
      <p class="help">Requests that this fleet cannot serve go to another of the same protocol, in order. They count in both fleets.</p></div>
    ${list.length > 0 && children}
    <datalist id=${FLEETS}>${names.list?.map((name) => html`<option value=${name}></option>`)}</datalist>
  </div>`;
}

/** @param {{policy: Policy, list: Fallback[], index: number, entry: Fallback, put: (next: Fallback[]) => void}} props */
function Entry({ policy, list, index, entry, put }) {
  const disabled = policy.busy || !MAY_OPERATE;
  const field = idOf(`fallback.${index}.fleet`);
  const change = (/** @type {Partial<Fallback>} */ part) => put(list.map((one, at) => (at === index ? { ...one, ...part } : one)));
  const others = list.filter((_, at) => at !== index);
  const earlier = () => put([...list.slice(0, index - 1), entry, ...others.slice(index - 1)]);
  const label = `Fallback ${index + 1}`;
  return html`<div class="parameter fallback" role="group" aria-label=${label}>
    <div class="field"><label for=${field}>${label}</label>
      <input id=${field} type="text" inputmode="text" list=${FLEETS} placeholder="name of a fleet" autocomplete="off" autocapitalize="none" spellcheck=${false}
        disabled=${disabled} ...${errorProps(policy, field)} value=${entry.fleet} onFocus=${() => names.read(policy)}
        onInput=${(/** @type {any} */ event) => change({ fleet: event.target.value })} /></div>
    <${FieldError} policy=${policy} id=${field} />
    <${Causes} policy=${policy} index=${index} entry=${entry} disabled=${disabled} change=${change} />
    <label class="check"><input type="checkbox" disabled=${disabled} checked=${entry.included}
      ...${errorProps(policy, idOf(`fallback.${index}.included`))} onChange=${(/** @type {any} */ event) => change({ included: event.target.checked })} />a client key for this fleet is enough</label>
    <${FieldError} policy=${policy} id=${idOf(`fallback.${index}.included`)} />
    <p class="help" id=${`${field}-help`}>${entry.included ? "Keys need not name the fallback." : "Keys must be for both fleets."}</p>
    <div class="row">
      ${index > 0 && html`<button type="button" class="plain" disabled=${disabled} aria-label=${`Try ${label} earlier`} onClick=${earlier}>earlier</button>`}
      <button type="button" class="plain" disabled=${disabled} aria-label=${`Remove ${label}`} onClick=${() => put(others)}>remove</button>
    </div>
  </div>`;
}

/** @param {{policy: Policy, index: number, entry: Fallback, disabled: boolean, change: (part: Partial<Fallback>) => void}} props */
function Causes({ policy, index, entry, disabled, change }) {
  const id = idOf(`fallback.${index}.causes`);
  const toggle = (/** @type {string} */ cause, /** @type {boolean} */ on) =>
    change({ causes: Object.keys(CAUSES).filter((one) => (one === cause ? on : entry.causes.includes(one))) });
  return html`<fieldset class="choices" id=${id} tabindex="-1" aria-invalid=${Boolean(policy.errors[id])} aria-describedby=${policy.errors[id] ? `${id}-wrong` : undefined}>
    <legend>When</legend>
    ${Object.entries(CAUSES).map(
      ([cause, words]) => html`<label class="check" key=${cause}><input type="checkbox" disabled=${disabled} checked=${entry.causes.includes(cause)}
        onChange=${(/** @type {any} */ event) => toggle(cause, event.target.checked)} />${words}</label>`,
    )}
    <${FieldError} policy=${policy} id=${id} />
  </fieldset>`;
}
