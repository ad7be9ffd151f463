/** Form fields of a replica, shared by registering and editing. */
import { numeric } from "./draft.js";
import { SelectEntry, TextEntry } from "./fields.js";
import { html } from "../html.js";
import { MEMORY_FIELDS, sentMemory } from "./memory_fields.js";

/** @param {{draft: import("./draft.js").Draft, classes: import("./hardware_class_options.js").HardwareClassOptions}} props */
export function SpeedFields({ draft, classes }) {
  const hardware = draft.text("hardware");
  return html`<${SelectEntry} draft=${draft} name="hardware" label="Hardware class" options=${classes.options(hardware)} />
    <${TextEntry} draft=${draft} name="weight" label="Weight" inputmode="decimal" placeholder=${classes.weight(hardware)} help=${hardware ? "Empty: from its hardware class." : "Empty: 1.0."} />
    <${TextEntry} draft=${draft} name="max_concurrency" label="Max concurrency" inputmode="numeric" placeholder="from the policy" help="Requests in flight at this replica; more are queued." />`;
}

/** @param {{draft: import("./draft.js").Draft}} props */
export function SiteField({ draft }) {
  return html`<${TextEntry} draft=${draft} name="site" label="Site" placeholder="any" help="Where it runs. Proxies of that site prefer it. Empty: local to every site." />`;
}

/** @param {{draft: import("./draft.js").Draft}} props */
export function CredentialField({ draft }) {
  return html`<${TextEntry} draft=${draft} name="credential" label="Credential" placeholder="from the fleet"
    help="Where proxies and probes find its bearer token: env:NAME or file:/absolute/path. Not the token itself. Empty: the fleet's." />`;
}

/** What a trial of a replica is told besides its URL. @param {string} fleet @param {import("./draft.js").Draft} draft */
export function trialOf(fleet, draft) {
  const credential = draft.text("credential");
  return credential ? { fleet, credential } : { fleet };
}

/** One field as the API takes it. @param {import("./draft.js").Draft} draft @param {string} name */
export function sent(draft, name) {
  const text = draft.text(name);
  if (MEMORY_FIELDS.includes(name)) return sentMemory(name, text);
  if (name === "weight" || name === "max_concurrency") return numeric(text);
  return name === "hardware" ? text || null : text;
}
