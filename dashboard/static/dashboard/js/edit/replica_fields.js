/** Form fields of a replica, shared by registering and editing. */
import { numeric } from "./draft.js";
import { SelectEntry, TextEntry } from "./fields.js";
import { html } from "../html.js";
import { MEMORY_FIELDS, sentMemory } from "./memory_fields.js";

/** @param {{draft: import("./draft.js").Draft, classes: import("./hardware_class_options.js").HardwareClassOptions}} props */
export function SpeedFields({ draft, classes }) {
  const hardware = draft.text("hardware");
  return html`<${SelectEntry} draft=${draft} name="hardware" label="Hardware class" options=${classes.options(hardware)} />
    <${TextEntry} draft=${draft} name="weight" label="Weight" inputmode="decimal" placeholder=${classes.weight(hardware)} help=${hardware ? "Empty: its hardware class's." : "Empty: 1.0."} />
    <${TextEntry} draft=${draft} name="max_concurrency" label="Max concurrency" inputmode="numeric" placeholder="as the policy says" help="Requests that it works on at once; more wait." />`;
}

/** @param {{draft: import("./draft.js").Draft}} props */
export function SiteField({ draft }) {
  return html`<${TextEntry} draft=${draft} name="site" label="Site" placeholder="any" help="Where it is. Proxies of that site ask it before others. Empty: near to all." />`;
}

/** @param {{draft: import("./draft.js").Draft}} props */
export function CredentialField({ draft }) {
  return html`<${TextEntry} draft=${draft} name="credential" label="Credential" placeholder="as the fleet says"
    help="Where the bearer token is that it wants, on the hosts of proxies and probes: env:NAME or file:/whole/path. Never the token. Empty: the fleet's." />`;
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
