/** Example request through the proxy as a `curl` command, and where its client key comes from once one is needed. */
import { quoted } from "../api.js";
import { html } from "../html.js";
import { Copyable } from "./copyable.js";

/** @typedef {{name: string, protocol: string}} Fleet */

/** @param {string} proxyUrl @param {Fleet | null} fleet null: which models there are @param {boolean} keyed */
export function proxyRequest(proxyUrl, fleet, keyed) {
  const header = keyed ? ' \\\n  -H "Authorization: Bearer $SWITCHYARD_KEY"' : "";
  if (!fleet) return `curl ${proxyUrl}/v1/models${header}`;
  const { name, protocol } = fleet;
  if (protocol === "open-inference") return `curl ${proxyUrl}/v2/models/${name}${header}`;
  if (protocol !== "openai") return `curl ${proxyUrl}/fleets/${name}/${header}`;
  const body = { model: name, messages: [{ role: "user", content: "Hello" }], max_tokens: 16 };
  return `curl ${proxyUrl}/v1/chat/completions${header} \\\n  --json ${quoted(JSON.stringify(body))}`;
}

/** @param {{proxyUrl: string, fleet: Fleet, keyed: boolean}} props */
export function ProxyRequest({ proxyUrl, fleet, keyed }) {
  return html`<${Copyable} label="A request through the proxy" text=${proxyRequest(proxyUrl, fleet, keyed)} />
    ${keyed && html`<p class="help" data-key-needed>Set SWITCHYARD_KEY to a client key that opens ${fleet.name}. It was shown once, when it was created under <a href="/client-keys">Client keys</a>.</p>`}`;
}
