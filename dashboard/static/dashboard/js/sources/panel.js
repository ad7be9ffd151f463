/** Sources panel (service discovery): what lists the fleet's replicas, how that goes, what stays without its word; forms that change it. */
import { State } from "../components/state.js";
import { age, count, plural } from "../format.js";
import { html } from "../html.js";
import { MAY_CHANGE, MAY_OPERATE } from "../may_change.js";
import { DeleteSource, EditSource, NewSource } from "./source_forms.js";
import { since } from "./sources.js";

/** Making and changing one needs a role for all fleets: nobody looks at each address that it says. */
const MAY_MAKE = document.getElementById("app")?.dataset.mayMakeSources === "yes";
const COLUMNS = 6;

/** @param {{actions: import("./source_actions.js").SourceActions}} props */
export function SourcesPanel({ actions }) {
  const { list, polling } = actions.sources;
  if (!list.length && !(MAY_MAKE && polling.list)) return "";
  return html`<section class="panel table-panel data sources" aria-labelledby="sources-title" id="sources">
    <div class="edit-head table-title"><h2 id="sources-title">Sources of replicas</h2>
      ${MAY_MAKE && html`<button type="button" id="add-source" aria-expanded=${actions.isOpen("new")} onClick=${() => actions.openNew()}>Add source</button>`}</div>
    ${polling.problem && html`<p class="problem" role="alert">${polling.problem}</p>`}
    ${actions.isOpen("new") && html`<${NewSource} actions=${actions} />`}
    ${actions.open.form === "edit" && html`<${EditSource} actions=${actions} />`}
    ${list.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Sources of replicas">
      <table class="cards">
        <thead><tr><th scope="col">Source</th><th scope="col">State</th><th scope="col" class="num">Replicas</th><th scope="col" class="num">Frozen</th><th scope="col" class="num">Last list</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>${list.map((source) => html`<${Row} key=${source.name} source=${source} actions=${actions} />`)}</tbody>
      </table>
    </div>`
      : html`<p class="table-foot">People register the replicas of this fleet. A source does it for you: it lists them in Kubernetes, DNS or a file, or they register themselves.</p>`}
    <${Done} actions=${actions} />
  </section>`;
}

/** @param {{source: import("./sources.js").Source, actions: import("./source_actions.js").SourceActions}} props */
function Row({ source, actions }) {
  const { name, kind, state, reason, replicas, last_list: last } = source;
  return html`<tr data-source=${name} id=${`source-${name}`}>
    <td class="half"><b>${name}</b><span class="sub">${kind} · ${whereOf(source)}</span></td>
    <td class="half wrap"><${State} state=${state} /><span class="sub">${reason || "the fleet has what it lists"}</span><${LeftOut} last=${last} /></td>
    <td class="num" data-label="Replicas">${count(replicas)}<span class="sub">registered</span></td>
    <td class="num" data-label="Frozen"><${Frozen} source=${source} /></td>
    <td class="num" data-label="Last list">${last ? html`${age(last.age_s)} ago<span class="sub">${last.entries === null ? "no answer" : `lists ${count(last.entries)}`}</span>` : html`<span class="muted">–</span>`}</td>
    <td class="actions full"><${Buttons} source=${source} actions=${actions} /></td>
  </tr>
  ${actions.isOpen("delete", name) && html`<tr class="note"><td class="full wrap" colspan=${COLUMNS}><${DeleteSource} source=${source} actions=${actions} /></td></tr>`}`;
}

/** @param {{source: import("./sources.js").Source, actions: import("./source_actions.js").SourceActions}} props */
function Buttons({ source, actions }) {
  const { name, paused } = source;
  const busy = actions.busy !== "";
  return html`${MAY_OPERATE && !paused && html`<button type="button" disabled=${busy} aria-busy=${actions.busy === name} aria-label=${`List ${name} now`} onClick=${() => actions.resync(name)}>List now</button>${" "}`}
    ${MAY_CHANGE && html`<button type="button" disabled=${busy} aria-label=${paused ? `Resume ${name}` : `Pause ${name}`} title=${paused ? "Follow it again" : "Do not follow it for now: its replicas stay as they are"} onClick=${() => actions.pause(source)}>${paused ? "Resume" : "Pause"}</button>${" "}`}
    ${MAY_MAKE && html`<button type="button" aria-label=${`Edit ${name}`} aria-expanded=${actions.isOpen("edit", name)} onClick=${() => actions.openEdit(name)}>Edit</button>${" "}`}
    ${MAY_CHANGE && html`<button type="button" aria-label=${`Delete ${name}`} aria-expanded=${actions.isOpen("delete", name)} onClick=${() => actions.openDelete(name)}>Delete …</button>`}`;
}

/** In a few words, where it looks. @param {import("./sources.js").Source} source */
function whereOf({ kind, file, dns, kubernetes, lease }) {
  if (file) return file.path;
  if (dns) return `${dns.name}${dns.type === "srv" ? " (SRV)" : ""}`;
  if (kubernetes) return `${kubernetes.namespace}/${kubernetes.service}`;
  return lease ? `from ${lease.allow.join(", ")}` : kind;
}

/** Those after the first, whose reason the state has. @param {{last: import("./sources.js").Source["last_list"]}} props */
function LeftOut({ last }) {
  const all = [...Object.entries(last?.refused ?? {}).map(([name, why]) => `${name}: ${why}`), ...(last?.left_alone ?? []).map((name) => `${name}: has the name of another's`)];
  if (all.length < 2) return "";
  return html`<details class="details"><summary>${plural(all.length, "replica")} left out</summary><ul class="changes">${all.map((one) => html`<li key=${one}>${one}</li>`)}</ul></details>`;
}

/** @param {{source: import("./sources.js").Source}} props */
function Frozen({ source: { frozen, frozen_since, oldest_missing_s: oldest } }) {
  if (!frozen) return html`<span class="muted">none</span>`;
  const seconds = oldest ?? (frozen_since ? since(frozen_since) : 0);
  return html`<b>${count(frozen)}</b><span class="sub" title=${`${plural(frozen, "replica")} stay without the source's word`}>for ${age(seconds)}</span>`;
}

/** What was done last, and for a while how it is taken back. @param {{actions: import("./source_actions.js").SourceActions}} props */
function Done({ actions }) {
  const { done } = actions;
  const left = (done?.until ?? 0) - performance.now();
  return html`<div class="notes" role="status" data-source-done>${done && html`<span class=${done.bad ? "problem" : "applied"}>${done.words}</span>
    ${done.undo && left > 0 && html`<button type="button" disabled=${actions.busy !== ""} onClick=${() => actions.undo()}>Undo · ${Math.ceil(left / 1000)} s</button>`}`}</div>`;
}
