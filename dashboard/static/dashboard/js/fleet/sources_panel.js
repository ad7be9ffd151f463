/** Sources panel (service discovery): what lists the fleet's replicas, how that goes, and what stays without its word. */
import { State } from "../components/state.js";
import { age, count, plural } from "../format.js";
import { html } from "../html.js";
import { since } from "./sources.js";

/** Not there where people alone register replicas. @param {{sources: import("./sources.js").Sources}} props */
export function SourcesPanel({ sources: { list, polling } }) {
  if (!list.length) return "";
  return html`<section class="panel table-panel data" aria-labelledby="sources-title">
    <h2 id="sources-title">Sources of replicas</h2>
    ${polling.problem && html`<p class="problem" role="alert">${polling.problem}</p>`}
    <div class="scroll" tabindex="0" role="region" aria-label="Sources of replicas">
      <table class="cards">
        <thead><tr><th scope="col">Source</th><th scope="col">State</th><th scope="col" class="num">Replicas</th><th scope="col" class="num">Frozen</th><th scope="col" class="num">Last list</th></tr></thead>
        <tbody>${list.map((source) => html`<${Row} key=${source.name} source=${source} />`)}</tbody>
      </table>
    </div>
  </section>`;
}

/** @param {{source: import("./sources.js").Source}} props */
function Row({ source }) {
  const { name, kind, state, reason, replicas, last_list: last } = source;
  return html`<tr data-source=${name}>
    <td class="half"><b>${name}</b><span class="sub">${kind}</span></td>
    <td class="half wrap"><${State} state=${state} /><span class="sub">${reason || "the fleet has what it lists"}</span></td>
    <td class="num" data-label="Replicas">${count(replicas)}<span class="sub">registered</span></td>
    <td class="num" data-label="Frozen"><${Frozen} source=${source} /></td>
    <td class="num" data-label="Last list">${last ? html`${age(last.age_s)} ago<span class="sub">${last.entries === null ? "no answer" : `lists ${count(last.entries)}`}</span>` : html`<span class="muted">–</span>`}</td>
  </tr>`;
}

/** @param {{source: import("./sources.js").Source}} props */
function Frozen({ source: { frozen, frozen_since, oldest_missing_s: oldest } }) {
  if (!frozen) return html`<span class="muted">none</span>`;
  const seconds = oldest ?? (frozen_since ? since(frozen_since) : 0);
  return html`<b>${count(frozen)}</b><span class="sub" title=${`${plural(frozen, "replica")} stay without the source's word`}>for ${age(seconds)}</span>`;
}
