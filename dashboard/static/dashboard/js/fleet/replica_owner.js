/** Owner of a replica: the source that put it there, and since when it stays without the source's word. */
import { Shape } from "../components/state.js";
import { age } from "../format.js";
import { html } from "../html.js";
import { since } from "../sources/sources.js";

/** @typedef {{source: string, kind: string, missing_since: string | null, drained_at: string | null}} ManagedBy */

/** Where a source's word is changed, by its kind. @type {Record<string, string>} */
const WHERE = { file: "in its file", dns: "in DNS", kubernetes: "in the cluster", lease: "where it registers itself" };

/** Not there where people registered it. @param {{by?: ManagedBy | null, sources: import("../sources/sources.js").Sources}} props */
export function ReplicaOwner({ by, sources }) {
  if (!by) return "";
  const source = sources.of(by.source);
  const away = source?.state === "failing" && source.frozen_since;
  const owner = `Source ${by.source} (${by.kind}) put it there, and says what it is and when it goes`;
  if (by.drained_at) return html`<span class="sub clipped" title=${`${owner}. It no longer has it.`}>from ${by.source}, leaving</span>`;
  const stays = by.missing_since ?? away;
  if (!stays) return html`<span class="sub clipped" title=${owner}>from ${by.source}</span>`;
  const why = by.missing_since ? "has not listed it" : "has not answered";
  const old = age(since(stays));
  return html`<span class="sub clipped" data-frozen title=${`${owner}. It ${why} for ${old}: the replica stays.`}><span class="state is-frozen"><${Shape} state="frozen" /></span>${by.source} · frozen ${old}</span>`;
}

/** In the form that changes it. @param {{by?: ManagedBy | null}} props */
export function ManagedNote({ by }) {
  if (!by) return "";
  return html`<p class="hint" data-managed>Source <a href=${`#source-${by.source}`}><b>${by.source}</b></a> put it there and says what it is: change that ${WHERE[by.kind] ?? "there"}, or for all its replicas in the settings of the source. Here its weight, admin state and streams can be changed.</p>`;
}
