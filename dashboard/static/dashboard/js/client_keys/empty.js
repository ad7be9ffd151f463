/** The page before there is a key: says who is served meanwhile, and how to change that. */
import { curl, quoted } from "../api.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../parts/copyable.js";
import { PATH } from "./model.js";

/** A request with the key. @param {string} proxyUrl @param {string} key @param {{name: string, protocol: string}} [fleet] none: which models it opens */
export function ask(proxyUrl, key, fleet) {
  const header = ` \\\n  -H "Authorization: Bearer ${key}"`;
  if (!fleet) return `curl ${proxyUrl}/v1/models${header}`;
  if (fleet.protocol === "open-inference") return `curl ${proxyUrl}/v2/models/${fleet.name}${header}`;
  if (fleet.protocol !== "openai") return `curl ${proxyUrl}/fleets/${fleet.name}/${header}`;
  const body = { model: fleet.name, messages: [{ role: "user", content: "Hello" }], max_tokens: 16 };
  return `curl ${proxyUrl}/v1/chat/completions${header} \\\n  --json ${quoted(JSON.stringify(body))}`;
}

export function NoKeys() {
  return html`<section class="panel empty"><h2>No client keys yet</h2>
    <p>A proxy on an address of its own machine serves whoever reaches it. One that other machines reach answers 401 until a key exists, unless it was started with <code>--open</code>.</p>
    <p><b>As soon as one key exists, every request needs one</b>: within a second, at every proxy. Give each client its own, for the fleets that it uses, so that one can be revoked alone.</p>
    ${MAY_CHANGE
      ? html`<${Copyable} label="Make a client key" text=${curl("POST", PATH, { name: "website", fleets: null })} />`
      : html`<p class="muted">Your account may look, not change: ask an administrator for a key.</p>`}</section>`;
}
