/** Form fields of a source: where the replicas are listed, by its kind, and what all of them have. */
import { SelectEntry, TextEntry } from "../edit/fields.js";
import { html } from "../html.js";

/** @typedef {import("./source_fields.js").Kind} Kind */

/** @type {[Kind, string][]} */
export const KINDS = [
  ["kubernetes", "Kubernetes service"],
  ["dns", "DNS name"],
  ["file", "file that is watched"],
  ["lease", "leases: replicas register themselves"],
];

/** @type {[string, string][]} */
const SCHEMES = [["", "http"], ["https", "https"]];

/** @param {{draft: import("../edit/draft.js").Draft, fresh: boolean, classes: import("../edit/hardware_class_options.js").HardwareClassOptions}} props `fresh`: it is being made */
export function SourceFields({ draft, fresh, classes }) {
  const Own = OWN[/** @type {Kind} */ (draft.text("kind"))];
  return html`<div class="form">
      ${fresh && html`<${TextEntry} draft=${draft} name="name" label="Name" placeholder="pods" required help="Unique in the fleet. It cannot be changed later." />
      <${SelectEntry} draft=${draft} name="kind" label="Kind" options=${KINDS} />`}
      <${Own} draft=${draft} />
      ${draft.text("kind") !== "lease" && html`<${TextEntry} draft=${draft} name="resync_s" label="Time between two lists (s)" placeholder="2" inputmode="decimal" help="A watch is heard at once, whatever this says." />`}
    </div>
    <${OfAll} draft=${draft} classes=${classes} />`;
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
function Kubernetes({ draft }) {
  return html`<${TextEntry} draft=${draft} name="namespace" label="Namespace" placeholder="models" required />
    <${TextEntry} draft=${draft} name="service" label="Service" placeholder="llm" required help="Each of its endpoints is a replica, named after its pod." />
    <${TextEntry} draft=${draft} name="port" label="Port" placeholder="the only one" help="Its name in the service, or its number." />
    <${SelectEntry} draft=${draft} name="scheme" label="Scheme" options=${SCHEMES} />
    <${TextEntry} draft=${draft} name="prefix" label="Path prefix" placeholder="none" />
    <${TextEntry} draft=${draft} name="label_hardware" label="Label that says the hardware class" placeholder="none" help="Of a pod, else of the service, as nvidia.com/gpu.product." />
    <${TextEntry} draft=${draft} name="label_site" label="Label that says the site" placeholder="the endpoint's zone" />
    <${TextEntry} draft=${draft} name="label_version" label="Label that says the version" placeholder="none" />`;
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
function Dns({ draft }) {
  const srv = draft.text("dns_type") === "srv";
  return html`<${TextEntry} draft=${draft} name="dns_name" label="Name in DNS" placeholder="llm.models.example" required help="A whole name, with its domain." />
    <${SelectEntry} draft=${draft} name="dns_type" label="Records" options=${[["", "A and AAAA: a replica at each address"], ["srv", "SRV: a replica at each target"]]} />
    ${(!srv || draft.text("dns_port")) && html`<${TextEntry} draft=${draft} name="dns_port" label="Port" placeholder="of the scheme" inputmode="numeric" />`}
    <${SelectEntry} draft=${draft} name="dns_scheme" label="Scheme" options=${SCHEMES} />
    <${TextEntry} draft=${draft} name="dns_prefix" label="Path prefix" placeholder="none" />
    <${TextEntry} draft=${draft} name="nameservers" label="Name servers" placeholder="the host's" help="By address, asked in order, as 10.0.0.2, 10.0.0.3:5353." />`;
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
function File({ draft }) {
  return html`<${TextEntry} draft=${draft} name="path" label="File" placeholder="rack-7.yaml" required
    help="Below the folder SWITCHYARD_SOURCES_DIR of the conductor's host. A list of replicas as in a fleet file." />`;
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
function Lease({ draft }) {
  return html`<${TextEntry} draft=${draft} name="allow" label="Where they may be" placeholder="10.0.0.0/8, *.gpu.example" required
      help="Networks, addresses, host names, or *. and a suffix. Whoever operates the fleet may register replicas there." />
    <${TextEntry} draft=${draft} name="ttl_s" label="A lease holds for (s)" placeholder="30" inputmode="decimal" help="Unless it is renewed. The agent renews at a third of it." />`;
}

const OWN = { kubernetes: Kubernetes, dns: Dns, file: File, lease: Lease };

/** @param {{draft: import("../edit/draft.js").Draft, classes: import("../edit/hardware_class_options.js").HardwareClassOptions}} props */
function OfAll({ draft, classes }) {
  const names = ["hardware", "site", "version", "max_concurrency", "credential"];
  const set = names.filter((name) => draft.text(name)).map((name) => `${name} ${draft.text(name)}`);
  const wrong = names.some((name) => draft.errors[name]);
  return html`<details class="details" open=${wrong || undefined}>
    <summary>Of every replica that it lists: ${set.join(", ") || "nothing is set"}</summary>
    <div class="form">
      <${SelectEntry} draft=${draft} name="hardware" label="Hardware class" options=${classes.options(draft.text("hardware"))} />
      <${TextEntry} draft=${draft} name="site" label="Site" placeholder="any" />
      <${TextEntry} draft=${draft} name="version" label="Version" placeholder="not set" />
      <${TextEntry} draft=${draft} name="max_concurrency" label="Max concurrency" inputmode="numeric" placeholder="from the policy" />
      <${TextEntry} draft=${draft} name="credential" label="Credential" placeholder="from the fleet" help="Where the bearer token is found: env:NAME or file:/absolute/path. Not the token itself." />
    </div>
    <p class="help">Unless the list says otherwise. Further settings that were set by the API stay as they are.</p>
  </details>`;
}
