/** Revision history of policy and weights: who, when, what changed; roll back and roll forward. */
import { curl } from "../api.js";
import { moment } from "../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";

/** The one that a link to this page named: `#revision-3`; 0: none. */
const ASKED = Number(/^#revision-([0-9]+)$/.exec(location.hash)?.[1] ?? 0);

/** @param {{policy: import("./policy.js").Policy}} props */
export function RevisionsPanel({ policy }) {
  const [chosen, choose] = useState(0);
  const { revisions } = policy;
  useEffect(() => {
    if (ASKED && policy.more && revisions.length && !revisions.some((one) => one.number === ASKED)) policy.showAll();
  }, [revisions.length > 0]);
  if (!revisions.length) return "";
  return html`<section class="panel revisions" aria-labelledby="revisions-title"><h2 id="revisions-title">Revisions</h2>
    <p class="result" role="status">${outcome(policy)}</p>
    <ol>${revisions.map((one) => html`<${Entry} key=${one.number} one=${one} policy=${policy} open=${chosen === one.number} choose=${choose} />`)}</ol>
    ${policy.more && html`<button type="button" class="plain" onClick=${() => policy.showAll()}>Show all</button>`}
  </section>`;
}

/** @param {import("./policy.js").Policy} policy */
function outcome({ restored, result, problem }) {
  if (!restored) return "";
  if (problem) return html`<span class="problem">${problem}</span>`;
  return result && html`<span class=${result.everywhere ? "applied" : "is-unready"}>${result.text}</span>`;
}

/** @param {{one: import("./policy.js").Revision, policy: import("./policy.js").Policy, open: boolean, choose: (number: number) => void}} props */
function Entry({ one, policy, open, choose }) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const current = one.number === policy.revision;
  const words = one.number > policy.revision ? "Roll forward to this" : "Roll back to this";
  const close = () => (choose(0), button.current?.focus());
  // Also while the button that opened it still has the focus.
  const leave = (/** @type {KeyboardEvent} */ event) => open && event.key === "Escape" && close();
  const line = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (one.number === ASKED) line.current?.scrollIntoView({ block: "center" });
  }, []);
  return html`<li ref=${line} onKeyDown=${leave} data-revision=${one.number} class=${one.number === ASKED ? "asked" : ""}><span><b>${one.number}</b> · ${one.summary}<br /><span class="muted">${one.actor || "unknown"}, ${moment(new Date(one.created_at))}</span></span>
    ${current ? html`<span class="state is-ready">in force</span>` : MAY_OPERATE && html`<button type="button" ref=${button} disabled=${policy.busy} aria-expanded=${open} title=${words} onClick=${() => choose(open ? 0 : one.number)}>Roll back to revision ${one.number}</button>`}
    ${open && !current && html`<${Preview} one=${one} policy=${policy} close=${close} />`}</li>`;
}

/** What going back would change, before it does. @param {{one: import("./policy.js").Revision, policy: import("./policy.js").Policy, close: () => void}} props */
function Preview({ one, policy, close }) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useLayoutEffect(() => button.current?.focus(), []);
  const lines = changes(policy, one);
  const go = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    await policy.goBack(one.number);
    close();
  };
  return html`<form class="preview stack" aria-label=${`What revision ${one.number} would change`} onSubmit=${go}>
    ${lines.length ? html`<ul class="changes">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>` : html`<p>Nothing would change: policy and weights are as they were then.</p>`}
    <div class="row"><button ref=${button} class="primary" disabled=${policy.busy || !lines.length} aria-busy=${policy.busy}>Roll back</button><button type="button" onClick=${close}>Cancel</button>
      <span class="muted">makes a new revision, so it can be undone</span></div>
    <${Copyable} label="The same as a command" text=${curl("POST", `/fleets/${policy.fleet}/revisions/${one.number}/restore`)} />
  </form>`;
}

/** "strategy: round_robin → random", for each that differs. @param {import("./policy.js").Policy} policy @param {import("./policy.js").Revision} then */
function changes({ stored, revisions }, then) {
  const weights = revisions[0].weights;
  // A replica that is not in the revision, or was removed, keeps its weight.
  const both = Object.keys(then.weights).filter((name) => name in weights);
  const now = Object.fromEntries(both.map((name) => [name, { weight: weights[name] }]));
  const before = Object.fromEntries(both.map((name) => [name, { weight: then.weights[name] }]));
  return [...differences(stored, then.policy, ""), ...differences(now, before, "")];
}

/** @param {any} now @param {any} then @param {string} prefix @returns {string[]} */
function differences(now, then, prefix) {
  const names = [...new Set([...Object.keys(now ?? {}), ...Object.keys(then ?? {})])];
  return names.flatMap((name) => {
    const [a, b] = [now?.[name], then?.[name]];
    if (isGroup(a) || isGroup(b)) return differences(a, b, `${prefix}${name}.`);
    return JSON.stringify(a) === JSON.stringify(b) ? [] : [`${prefix}${name}: ${shown(a)} → ${shown(b)}`];
  });
}

/** @param {any} value */
function isGroup(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** @param {any} value */
function shown(value) {
  return value === null || value === undefined ? "not set" : String(value);
}
