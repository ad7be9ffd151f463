/** The overview before there is a fleet: says what to do. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { Copyable } from "../parts/copyable.js";

export function NoFleets() {
  return html`<section class="panel empty">
    <h2>No fleets yet</h2>
    <p>A fleet is all replicas that serve one model. Make one, then register its replicas; each takes requests after its first passed probe.
      ${" "}<code>manage.py createtoken</code> prints a token.</p>
    <${Copyable} label="Make a fleet" text=${curl("POST", "/fleets", { name: "llama-3-8b", protocol: "openai", probe: { preset: "vllm" } })} />
    <${Copyable} label="Register a replica" text=${curl("POST", "/fleets/llama-3-8b/replicas", { name: "a", url: "http://10.0.0.1:8000" })} />
    <p class="muted">Or apply a file that describes all of it: <code>manage.py apply fleets.yaml</code>.</p>
  </section>`;
}
