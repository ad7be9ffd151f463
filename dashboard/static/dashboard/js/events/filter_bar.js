/** Filter bar. A choice is applied at once; typed text is debounced. */
import { html, useState } from "../html.js";
import { fromField, toField } from "./times.js";

const KINDS = { health: "Health", ejection: "Ejection", admin: "Admin", policy: "Policy", limit: "Limit", system: "System", alert: "Alert" };
const AGES = { "": "any time", "1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days" };
const TYPED_MS = 250;

let timer = 0;

/** @param {() => void} then */
function soon(then) {
  clearTimeout(timer);
  timer = setTimeout(then, TYPED_MS);
}

/**
 * @param {{filters: import("./filters.js").Filters, fleets: string[], actors: string[], replicas: string[]}} props
 */
export function FilterBar({ filters, fleets, actors, replicas }) {
  const { wanted } = filters;
  const known = wanted.fleet && !fleets.includes(wanted.fleet) ? [wanted.fleet, ...fleets] : fleets;
  const submit = (/** @type {Event} */ event) => event.preventDefault();
  return html`<form class="panel filters" role="search" aria-label="Which events" onSubmit=${submit}>
    <div class="kinds" role="group" aria-label="Kinds">
      ${Object.entries(KINDS).map(([kind, word]) => html`<button type="button" class="toggle" key=${kind} aria-pressed=${filters.kinds().includes(kind)}
        onClick=${() => filters.toggleKind(kind)}>${word}</button>`)}
    </div>
    <label>Fleet <select value=${wanted.fleet} onChange=${(/** @type {any} */ event) => filters.set({ fleet: event.target.value })}>
      <option value="" selected=${!wanted.fleet}>all</option>
      ${known.map((name) => html`<option value=${name} selected=${name === wanted.fleet}>${name}</option>`)}</select></label>
    <${Typed} label="Replica" name="replica" filters=${filters} offers=${replicas} />
    <${Typed} label="By" name="actor" filters=${filters} offers=${actors} />
    <${When} filters=${filters} />
    ${filters.any && html`<button type="button" onClick=${() => filters.clear()}>Clear filters</button>`}
  </form>`;
}

/** @param {{label: string, name: "replica" | "actor", filters: import("./filters.js").Filters, offers: string[]}} props */
function Typed({ label, name, filters, offers }) {
  const change = (/** @type {any} */ event) => {
    const { value } = event.target;
    soon(() => filters.set({ [name]: value.trim() }));
  };
  return html`<label>${label} <input list=${`offers-${name}`} value=${filters.wanted[name]} placeholder="any" size="12" onInput=${change}
      autocomplete="off" autocapitalize="none" spellcheck=${false} />
    <datalist id=${`offers-${name}`}>${offers.map((one) => html`<option value=${one} />`)}</datalist></label>`;
}

/** A while back, or between two moments. @param {{filters: import("./filters.js").Filters}} props */
function When({ filters }) {
  const { since, until } = filters.wanted;
  const [opened, open] = useState(false);
  const between = opened || Boolean(until) || !(since in AGES);
  const choose = (/** @type {any} */ event) => {
    const { value } = event.target;
    open(value === "between");
    if (value !== "between") filters.set({ since: value, until: "" });
  };
  const put = (/** @type {"since" | "until"} */ name) => (/** @type {any} */ event) => filters.set({ [name]: fromField(event.target.value) });
  return html`<label>When <select onChange=${choose}>
      ${Object.entries(AGES).map(([age, words]) => html`<option value=${age} selected=${!between && age === since}>${words}</option>`)}
      <option value="between" selected=${between}>between …</option></select></label>
    ${between && html`<label>From <input type="datetime-local" value=${toField(since)} onChange=${put("since")} /></label>
      <label>to <input type="datetime-local" value=${toField(until)} onChange=${put("until")} /></label>`}`;
}
