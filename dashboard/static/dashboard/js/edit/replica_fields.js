/** Fields of a replica, shared by registering, editing and bringing back: what is stored, what a form shows and sends. */
import { listed, numeric } from "./draft.js";
import { SelectEntry, TextEntry } from "./fields.js";
import { html } from "../html.js";
import { MEMORY_FIELDS } from "./memory_fields.js";

/**
 * A replica's settings, as the API answers them; it answers more beside them.
 * @typedef {{name: string, url: string, hardware: string | null, weight: number | null, max_concurrency: number | null, site: string,
 *   version: string, credential: string, adapters: string[] | null, admin_state: string, move: boolean, accelerators: string[], memory_bytes: number | null, request_bytes: number,
 *   request_bytes_per_work: number, managed_by?: import("../fleet/replica_owner.js").ManagedBy | null}} ReplicaSettings
 */

/** @type {import("./draft.js").Field} */
const TEXT = { shown: (value) => value ?? "", sent: (text) => text };
/** @type {import("./draft.js").Field} */
const NUMBER = { shown: (value) => String(value ?? ""), sent: numeric };

/** How a select says that something is so. */
export const YES = "yes";

/** The word that stands for an empty list in the form: an empty field is no list, which means all. */
const NONE = "none";
/** @type {import("./draft.js").Field} */
const ADAPTERS = {
  shown: (names) => (names ? names.join(", ") || NONE : ""),
  sent: (text) => (text ? (text === NONE ? [] : listed(text)) : null),
};

/** @type {import("./draft.js").Field} */
const FLAG = { shown: (value) => (value ? YES : ""), sent: (text) => text === YES };

/** Every setting. @type {Record<string, import("./draft.js").Field>} */
const FIELDS = {
  name: TEXT,
  url: TEXT,
  hardware: { ...TEXT, sent: (text) => text || null },
  weight: NUMBER,
  max_concurrency: NUMBER,
  site: TEXT,
  version: TEXT,
  credential: TEXT,
  adapters: ADAPTERS,
  admin_state: TEXT,
  move: FLAG,
  ...MEMORY_FIELDS,
};

/** In the order in which commands show them. */
export const NAMES = Object.keys(FIELDS);

/** Form values of a replica. @param {any} replica as the API answers it, or `{}` @param {string} except a setting that the form has not */
export function shownValues(replica, except) {
  const names = NAMES.filter((name) => name !== except);
  return Object.fromEntries(names.map((name) => [name, FIELDS[name].shown(replica[name])]));
}

/** One field as the API takes it. @param {import("./draft.js").Draft} draft @param {string} name */
export function sent(draft, name) {
  return FIELDS[name].sent(draft.text(name));
}

/** What registers a removed replica again as it was. @param {Record<string, any>} replica as the API answered it */
export function settingsOf(replica) {
  return Object.fromEntries(NAMES.map((name) => [name, replica[name]]));
}

/** Entries that both forms have, beside name, URL and memory. @param {{draft: import("./draft.js").Draft, classes: import("./hardware_class_options.js").HardwareClassOptions}} props */
export function ReplicaFields({ draft, classes }) {
  const hardware = draft.text("hardware");
  return html`<${SelectEntry} draft=${draft} name="hardware" label="Hardware class" options=${classes.options(hardware)} />
    <${TextEntry} draft=${draft} name="weight" label="Weight" inputmode="decimal" placeholder=${classes.weight(hardware)} help=${hardware ? "Empty: from its hardware class." : "Empty: 1.0."} />
    <${TextEntry} draft=${draft} name="max_concurrency" label="Max concurrency" inputmode="numeric" placeholder="from the policy" help="Requests in flight at this replica; more are queued." />
    <${TextEntry} draft=${draft} name="site" label="Site" placeholder="any" help="Where it runs. Proxies of that site prefer it. Empty: local to every site." />
    <${TextEntry} draft=${draft} name="version" label="Version" placeholder="not set" help="Of the model or build it serves. Only replicas of the same version continue each other's answers." />
    <${TextEntry} draft=${draft} name="adapters" label="LoRA adapters" placeholder="all of the fleet's" help="Which of the fleet's adapters it serves, as sql-lora, support-lora. Empty: all of them; none: none." />
    <${TextEntry} draft=${draft} name="credential" label="Credential" placeholder="from the fleet"
      help="Where proxies and probes find its bearer token: env:NAME or file:/absolute/path. Not the token itself. Empty: the fleet's." />`;
}

/** What a trial of a replica is told besides its URL. @param {string} fleet @param {import("./draft.js").Draft} draft */
export function trialOf(fleet, draft) {
  const credential = draft.text("credential");
  return credential ? { fleet, credential } : { fleet };
}
