/** Fields of a source: which the form has for each kind, and how they become what the API takes. */
import { listed, numeric } from "../edit/draft.js";

/** @typedef {import("../edit/draft.js").Field} Field @typedef {"file" | "lease" | "dns" | "kubernetes"} Kind */

/** @type {Field} */
const TEXT = { shown: (value) => value ?? "", sent: (text) => text || null };
/** Not set where it is at its default. @param {string} standard @returns {Field} */
const choice = (standard) => ({ shown: (value) => (value === standard ? "" : value ?? ""), sent: (text) => text || null });
/** @type {Field} */
const NUMBER = { shown: (value) => String(value ?? ""), sent: (text) => numeric(text) };
/** @type {Field} */
const LIST = { shown: (value) => (value ?? []).join(", "), sent: (text) => (text ? listed(text) : null) };

/** Field of the form → where it is in a source, and how it is written. @type {Record<string, [string, Field]>} */
const FIELDS = {
  path: ["file/path", TEXT],
  allow: ["lease/allow", LIST],
  ttl_s: ["lease/ttl_s", NUMBER],
  dns_name: ["dns/name", TEXT],
  dns_type: ["dns/type", choice("a")],
  dns_port: ["dns/port", NUMBER],
  dns_scheme: ["dns/scheme", choice("http")],
  dns_prefix: ["dns/path_prefix", TEXT],
  nameservers: ["dns/nameservers", LIST],
  namespace: ["kubernetes/namespace", TEXT],
  service: ["kubernetes/service", TEXT],
  port: ["kubernetes/port", TEXT],
  scheme: ["kubernetes/scheme", choice("http")],
  prefix: ["kubernetes/path_prefix", TEXT],
  label_hardware: ["kubernetes/labels/hardware", TEXT],
  label_site: ["kubernetes/labels/site", TEXT],
  label_version: ["kubernetes/labels/version", TEXT],
  resync_s: ["resync_s", NUMBER],
  hardware: ["replica/hardware", TEXT],
  site: ["replica/site", TEXT],
  version: ["replica/version", TEXT],
  max_concurrency: ["replica/max_concurrency", NUMBER],
  credential: ["replica/credential", TEXT],
};

/** A field that the API requires is sent as it was typed, so that it is the API that says what is missing. */
const REQUIRED = /** @type {Record<Kind, string[]>} */ ({ file: ["path"], lease: ["allow"], dns: ["dns_name"], kubernetes: ["namespace", "service"] });

/** @param {any} source as the API answers it, or `{}` @returns {import("../edit/draft.js").Values} */
export function shownValues(source) {
  /** @type {import("../edit/draft.js").Values} */
  const values = { name: source.name ?? "", kind: source.kind ?? "kubernetes" };
  for (const [name, [path, field]] of Object.entries(FIELDS)) values[name] = field.shown(path.split("/").reduce((value, part) => value?.[part], source));
  return values;
}

/** Fields of a kind, and those of every kind. @param {Kind} kind */
function namesOf(kind) {
  return Object.keys(FIELDS).filter((name) => !Object.keys(REQUIRED).some((other) => other !== kind && FIELDS[name][0].startsWith(`${other}/`)));
}

/** What makes a new source. @param {import("../edit/draft.js").Draft} draft @returns {Record<string, any>} */
export function newBody(draft) {
  const kind = /** @type {Kind} */ (draft.text("kind"));
  /** @type {Record<string, any>} */
  const body = { name: draft.text("name"), [kind]: {} };
  for (const name of namesOf(kind)) {
    const typed = draft.text(name);
    if (typed || (REQUIRED[kind].includes(name) && name !== "allow")) put(body, FIELDS[name][0], typed ? FIELDS[name][1].sent(typed) : "");
  }
  return body;
}

/** What was changed, as a merge patch. @param {import("../edit/draft.js").Draft} draft @param {"values" | "initial"} [which] as typed, or as it was before */
export function changes(draft, which = "values") {
  /** @type {Record<string, any>} */
  const body = {};
  for (const name of namesOf(/** @type {Kind} */ (draft.text("kind")))) {
    if (draft.touched(name)) put(body, FIELDS[name][0], FIELDS[name][1].sent(String(draft[which][name] ?? "").trim()));
  }
  return body;
}

/** @param {Record<string, any>} body @param {string} path @param {unknown} value */
function put(body, path, value) {
  const parts = path.split("/");
  const last = /** @type {string} */ (parts.pop());
  let at = body;
  for (const part of parts) at = at[part] ??= {};
  at[last] = value;
}

/** Settings after a merge patch. @param {any} stored @param {any} patch @returns {any} */
export function merged(stored, patch) {
  const result = { ...stored };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else if (typeof value === "object" && !Array.isArray(value)) result[name] = merged(result[name] ?? {}, value);
    else result[name] = value;
  }
  return result;
}

/** What of an answer is settings. @param {any} source as the API answers it */
export function settingsOf({ name, kind, replica, resync_s, [kind]: own }) {
  const { port, ...others } = own;
  return { name, [kind]: { ...others, ...(port != null && port !== "" && { port }) }, replica, resync_s };
}

/** @param {string} pointer of a wrong field @returns {string} the form's field */
export function fieldOf(pointer) {
  const path = pointer.slice(1).replace(/\/\d+$/, "");
  const found = Object.entries(FIELDS).find(([, [where]]) => where === path);
  if (found) return found[0];
  // Of a group that lacks a field, or is beside another: where its first one is typed.
  const kind = path.split("/")[0];
  return REQUIRED[/** @type {Kind} */ (kind)]?.[0] ?? kind;
}
