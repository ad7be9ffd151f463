/** Rate limits and quotas of a client key: the API's names, as text and as form fields. */
import { numeric } from "../edit/draft.js";
import { SelectEntry, TextEntry } from "../edit/fields.js";
import { count } from "../format.js";
import { html } from "../html.js";

/** @typedef {"requests_per_minute" | "max_concurrency" | "tokens_per_minute"} Limit */
/** @typedef {{priority: string, weight: number} & Record<Limit, number | null>} Limits */

/** Of one, of several. @type {Record<Limit, [string, string]>} */
const WORDS = {
  requests_per_minute: ["request per minute", "requests per minute"],
  max_concurrency: ["concurrent request", "concurrent requests"],
  tokens_per_minute: ["token per minute", "tokens per minute"],
};
export const LIMITS = /** @type {Limit[]} */ (Object.keys(WORDS));
export const FREE = "No limit is set";

/** @type {[string, string][]} */
const PRIORITIES = [
  ["high", "high: first in the queue"],
  ["normal", "normal"],
  ["low", "low: last in the queue"],
];

/** "60 requests per minute". @param {Limit} name @param {number} value */
export function limitText(name, value) {
  return `${count(value)} ${WORDS[name][value === 1 ? 0 : 1]}`;
}

/** As the fields of a form hold them. @param {Limits | null} one null: a new key */
export function limitValues(one) {
  const limits = LIMITS.map((name) => [name, String(one?.[name] ?? "")]);
  return { priority: one?.priority ?? "normal", weight: String(one?.weight ?? 1), ...Object.fromEntries(limits) };
}

/** As the API takes them. @param {import("../edit/draft.js").Draft} draft */
export function limitsOf(draft) {
  const turns = { priority: draft.text("priority"), weight: numeric(draft.text("weight")) };
  return { ...turns, ...Object.fromEntries(LIMITS.map((name) => [name, numeric(draft.text(name))])) };
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
export function LimitFields({ draft }) {
  const common = { draft, inputmode: "numeric", placeholder: "no limit" };
  return html`<${SelectEntry} draft=${draft} name="priority" label="Priority" options=${PRIORITIES} help="The order of requests in a queue." />
    <${TextEntry} draft=${draft} inputmode="decimal" name="weight" label="Weight" help="The key's share of a queue, within its priority. Others have 1." />
    <${TextEntry} ...${common} name="requests_per_minute" label="Requests per minute" help="More are answered with 429. Empty: no limit." />
    <${TextEntry} ...${common} name="max_concurrency" label="Concurrent requests" help="In flight and queued; more are answered with 429. Empty: no limit." />
    <${TextEntry} ...${common} name="tokens_per_minute" label="Tokens per minute" help="Prompt and output tokens, as responses report them. Above the limit requests are answered with 429. Empty: no limit." />`;
}
