/** “Keys required”: whether every request needs a client key; turned on and off with a confirmation. */
import { api, curl } from "../api.js";
import { Confirm } from "../edit/confirm.js";
import { Draft } from "../edit/draft.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { PATH, reach } from "./model.js";

const SETTINGS = `${PATH}/settings`;
const PERIOD_MS = 5_000;

export class KeysRequired {
  /** Null: not read yet. @type {boolean | null} */
  required = null;
  /** What was asked for when the confirmation was opened, whatever others set meanwhile; null: it is closed. @type {boolean | null} */
  wanted = null;
  done = "";

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.draft = new Draft("keys-required", {}, changed);
    this.read = this.read.bind(this);
  }

  start() {
    this.read();
    setInterval(() => document.hidden || this.read(), PERIOD_MS);
    document.addEventListener("visibilitychange", () => document.hidden || this.read());
  }

  async read() {
    try {
      const { data } = await api("GET", SETTINGS);
      if (this.required === data.required) return;
      this.required = data.required;
      this.changed();
    } catch {
      // What was known last is shown; the list says that the server is away.
    }
  }

  /** @param {boolean} wanted */
  ask(wanted) {
    this.wanted = wanted;
    this.done = "";
    this.draft.reset({});
  }

  close() {
    this.wanted = null;
    this.changed();
    requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector("[data-keys-required] button"))?.focus());
  }

  async confirm() {
    const answer = await this.draft.send("PATCH", SETTINGS, { required: this.wanted });
    if (!answer) return;
    const { required, changed, workers, not_published } = answer.data;
    this.required = required;
    this.done = changed.length ? `${changed.join("; ")} · ${reach(workers, not_published)}` : `Keys required: it was ${required ? "on" : "off"} already.`;
    this.close();
  }
}

/** @param {{setting: KeysRequired, keys: number}} props `keys`: in force */
export function RequiredPanel({ setting, keys }) {
  const { required, wanted, draft, done } = setting;
  if (required === null) return null;
  const nobody = required && !keys;
  return html`<section class="panel" data-keys-required=${required ? "on" : "off"}>
    <div class="row"><h2>Keys required: ${required ? "on" : "off"}</h2>
      ${MAY_CHANGE && wanted === null && html`<button type="button" onClick=${() => setting.ask(!required)}>${required ? "Turn off …" : "Turn on …"}</button>`}</div>
    ${done && html`<p role="status">${done}</p>`}
    <p class=${nobody ? "is-down" : ""}>${effect(required, keys)}</p>
    ${wanted !== null && html`<${Confirm} action=${wanted ? "Require client keys" : "Serve without client keys"} busy=${draft.busy} problem=${draft.problem}
      confirm=${() => setting.confirm()} close=${() => setting.close()} command=${curl("PATCH", SETTINGS, { required: wanted })}>
      <p class="is-unready">${asked(wanted, keys)}</p><//>`}
  </section>`;
}

/** @param {boolean} required @param {number} keys */
function effect(required, keys) {
  if (required) return keys ? "Every request to a proxy needs a client key. Revoking the last key does not change that." : "There is no client key, so no request is served: proxies answer 401. Create a key, or turn this off.";
  return "Requests without a client key are served by proxies on a local address, and by those started with --open. Other proxies require one all the same. Keys keep their fleets and limits.";
}

/** @param {boolean} wanted @param {number} keys */
function asked(wanted, keys) {
  if (!wanted) return html`<b>Within a second everybody who can reach a proxy on a local address, or one started with <code>--open</code>, is served without a client key.</b> A key that is revoked or mistyped is then as good as none. The next key that is created while there is none turns this on again.`;
  return html`<b>Clients without a key lose access.</b> Within a second every proxy answers 401 to every request without a key. Requests in flight finish.${!keys && " There is no key yet, so nobody is served until one is created."}`;
}
