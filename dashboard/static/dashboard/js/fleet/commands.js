/** Commands for a terminal: a request to this fleet, the last change, registering a replica. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { Copyable } from "../components/copyable.js";
import { ProxyRequest } from "../components/proxy_request.js";

/** @param {{fleet: import("../components/proxy_request.js").Fleet, proxyUrl: string, keyed: boolean}} props */
export function SendRequest({ fleet, proxyUrl, keyed }) {
  return html`<section class="panel" aria-labelledby="send-title"><h2 id="send-title">Send it a request</h2>
    <${ProxyRequest} proxyUrl=${proxyUrl} fleet=${fleet} keyed=${keyed} /></section>`;
}

/** The newest action of a row, or the one that would drain the first. @param {{actions: import("./row_actions.js").RowActions, first: string}} props */
export function LastAction({ actions, first }) {
  const { method, path, body } = actions.last ?? { method: "PATCH", path: `/fleets/${actions.fleet}/replicas/${first}`, body: { admin_state: "draining" } };
  return html`<details class="table-foot"><summary>${actions.last ? "The last change as a command" : `Draining ${first} as a command`}</summary>
    <${Copyable} label="Command" text=${curl(method, path, body)} /></details>`;
}

/** @param {{fleet: string, register: (() => void) | null}} props `register`: opens the form; null where it is open, or nobody may */
export function NoReplicas({ fleet, register }) {
  return html`<section class="panel empty"><h2>No replicas yet</h2>
    <p>Register each replica by its base URL. It takes requests after its first passed probe; until then requests to ${fleet} are answered with 503.</p>
    ${register && html`<button type="button" class="primary" onClick=${register}>Register a replica</button>
      <p class="muted">Or from a terminal:</p>`}
    <${Copyable} label="Register a replica" text=${curl("POST", `/fleets/${fleet}/replicas`, { name: "a", url: "http://10.0.0.1:8000" })} /></section>`;
}
