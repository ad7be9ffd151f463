/** Form fields of a fleet: API values to text, and text to the request body. */
import { html } from "../html.js";
import { listed } from "./draft.js";
import { CheckEntry, SelectEntry, TextEntry } from "./fields.js";

/** @type {[string, string][]} */
export const PROTOCOLS = [
  ["openai", "OpenAI"],
  ["open-inference", "Open Inference Protocol (V2)"],
  ["generic", "generic"],
];

/** What clients may reach → what that means. @type {Record<string, string>} */
const EXPOSED = {
  inference: "Inference calls, metadata and health of the protocol's APIs. Generic: everything but known management paths. Other fleets' models on the same host are refused.",
  all: "Every path and model of the replicas' hosts. Clients can load and unload models there, or stop the server.",
  paths: "These paths and everything below them, management paths included if you list them.",
  "": "This fleet is from before this setting: everything is open as it was, and what “calls of its API” would refuse is counted.",
};

/** @type {[string, string][]} */
const EXPOSE_CHOICES = [["inference", "calls of its API"], ["paths", "listed paths"], ["all", "everything"]];

/** @param {string} protocol */
export function protocolText(protocol) {
  return PROTOCOLS.find(([name]) => name === protocol)?.[1] ?? protocol;
}

/** Preset → what it asks, as the server put it on the page; without a preset the protocol says. @returns {[string, string][]} */
function presets() {
  return JSON.parse(document.getElementById("app")?.dataset.presets ?? "[]");
}

/** A fleet's values as text. @param {any} fleet as the API answers it, or `{}` @returns {import("./draft.js").Values} */
export function valuesOf({ protocol = "openai", aliases = [], adapters = [], served_model = "", expose = "inference", credential = "", match = [], labels = {}, default: standard = false, probe = {}, tls = {} }) {
  const chosen = probe.preset && (probe.preset !== "http" || probe.path);
  const paths = Array.isArray(expose) ? expose : [];
  return { protocol, expose: paths.length ? "paths" : (expose ?? ""), exposed_paths: paths.join(", "), aliases: aliases.join(", "), adapters: adapters.join(", "), served_model, credential, match: match.map(written).join(", "), labels: Object.entries(labels).map((one) => one.join("=")).join(", "), default: standard, preset: chosen ? probe.preset : "", path: probe.path ?? "", ca: tls.ca ?? "", server_name: tls.server_name ?? "" };
}

/**
 * What the API takes, of the fields that differ from how they began (`all`: of every field that is filled).
 * @param {import("./draft.js").Draft} draft @param {boolean} all
 */
export function bodyOf(draft, all) {
  /** @type {Record<string, any>} */
  const body = {};
  const wanted = (/** @type {string} */ name) => (all ? draft.values[name] : draft.touched(name));
  if (wanted("protocol")) body.protocol = draft.values.protocol;
  if (wanted("aliases")) body.aliases = listed(draft.text("aliases"));
  if (wanted("adapters")) body.adapters = listed(draft.text("adapters"));
  if (wanted("served_model")) body.served_model = draft.text("served_model");
  const expose = draft.text("expose");
  if (expose === "paths" ? wanted("expose") || wanted("exposed_paths") : expose && (all ? expose !== "inference" : wanted("expose"))) {
    body.expose = expose === "paths" ? listed(draft.text("exposed_paths")) : expose;
  }
  if (wanted("credential")) body.credential = draft.text("credential");
  if (wanted("match")) body.match = listed(draft.text("match")).map(matchOf);
  if (wanted("labels")) body.labels = Object.fromEntries(listed(draft.text("labels")).map(labelOf));
  if (wanted("default")) body.default = draft.values.default;
  if (wanted("preset") || (draft.values.preset === "http" && wanted("path"))) body.probe = probeOf(draft, all);
  const tls = ["ca", "server_name"].filter(wanted).map((name) => [name, draft.text(name)]);
  if (tls.length) body.tls = Object.fromEntries(tls);
  return body;
}

/** "llm.corp.example/v1", "*.corp.example", "/v1". @param {{host: string, path_prefix: string}} match */
function written({ host, path_prefix }) {
  return host + path_prefix;
}

/** @param {string} text @returns {{host?: string, path_prefix?: string}} */
function matchOf(text) {
  const slash = text.indexOf("/");
  const [host, path_prefix] = slash < 0 ? [text, ""] : [text.slice(0, slash), text.slice(slash)];
  return { ...(host && { host }), ...(path_prefix && { path_prefix }) };
}

/** "team=search" @param {string} text @returns {[string, string]} */
export function labelOf(text) {
  const [name = "", ...value] = text.split("=");
  return [name.trim(), value.join("=").trim()];
}

/** @param {import("./draft.js").Draft} draft @param {boolean} fresh a new fleet has nothing to unset */
function probeOf(draft, fresh) {
  const preset = draft.text("preset");
  if (preset === "http") return { preset, path: draft.text("path") };
  if (preset) return { preset };
  return fresh ? {} : { preset: null, path: null };
}

/** JSON pointer → field of the form: `/aliases/1`, `/probe/path`, `/policy/strategy`. @param {string} pointer */
export function fieldOf(pointer) {
  const [, first = "", second = ""] = pointer.split("/");
  if (first === "probe") return second === "path" || second === "" ? "path" : "preset";
  if (first === "tls") return second || "ca";
  if (first === "expose") return second ? "exposed_paths" : "expose";
  return first === "policy" ? second : first;
}

/** @param {{draft: import("./draft.js").Draft}} props */
export function FleetFields({ draft }) {
  const choices = presets();
  const preset = draft.text("preset");
  const expose = draft.text("expose");
  const older = draft.initial.expose === "";
  const words = choices.find(([name]) => name === preset)?.[1].replaceAll("`", "");
  return html`<${SelectEntry} draft=${draft} name="protocol" label="Protocol" options=${PROTOCOLS} help="The API that clients use." />
    <${TextEntry} draft=${draft} name="aliases" label="Aliases" placeholder="chat, gpt-large" help="Other model names that clients may use, separated by commas." />
    <${TextEntry} draft=${draft} name="served_model" label="Served model" placeholder="same as the fleet" help="The model name that the replicas use, if it differs." />
    <${TextEntry} draft=${draft} name="adapters" label="LoRA adapters" placeholder="sql-lora, support-lora" help="Names of adapters that the replicas serve too. They are passed on unchanged." />
    <${TextEntry} draft=${draft} name="match" label="Hosts and paths" placeholder="llm.corp.example/v1, /chat" help="For requests that do not name a fleet: their host, path prefix, or both. Separated by commas." />
    <${TextEntry} draft=${draft} name="labels" label="Labels" placeholder="team=search, env=prod" help="Roles of accounts and tokens can be limited to fleets with a label. Separated by commas." />
    <${SelectEntry} draft=${draft} name="expose" label="Exposed paths" options=${[...(older ? [["", "everything, as before"]] : []), ...EXPOSE_CHOICES]} help=${EXPOSED[expose]} />
    ${expose === "paths" && html`<${TextEntry} draft=${draft} name="exposed_paths" label="Paths" placeholder="/v1, /classify" required help="What clients may reach, separated by commas." />`}
    <${SelectEntry} draft=${draft} name="preset" label="Probe preset" options=${[["", "default of the protocol"], ...choices.map(([name]) => [name, name])]}
      help=${preset ? words : "OpenAI: GET /health is 200. V2: the model's own readiness. Generic: any response below 500."} />
    ${preset === "http" && html`<${TextEntry} draft=${draft} name="path" label="Probe path" placeholder="/healthz" required help="The path that the probe requests, below the replica's URL." />`}
    <${TextEntry} draft=${draft} name="credential" label="Credential" placeholder="env:VLLM_KEY" help="Where proxies and probes find the replicas' bearer token: env:NAME or file:/absolute/path. Not the token itself." />
    <${TlsFields} draft=${draft} />
    <${CheckEntry} draft=${draft} name="default" label="Default" words="takes requests that name no fleet" help="Only one fleet can be the default. This one replaces the present one." />`;
}

/** How replicas at an https URL are verified. @param {{draft: import("./draft.js").Draft, onBlur?: () => void}} props */
export function TlsFields({ draft, onBlur }) {
  return html`<${TextEntry} draft=${draft} name="ca" label="CA for https" placeholder="system CAs" help="Where proxies and probes find the CA bundle: file:/absolute/path.pem or env:NAME." onBlur=${onBlur} />
    <${TextEntry} draft=${draft} name="server_name" label="TLS server name" placeholder="host of the URL" help="The host name in the certificates of https replicas, if it is not the URL's host." onBlur=${onBlur} />`;
}
