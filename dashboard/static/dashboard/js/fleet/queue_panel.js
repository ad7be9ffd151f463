/** Queue panel: requests that wait for a slot at a replica, and requests refused because none was free. */
import { age } from "../format.js";
import { html } from "../html.js";
import { queuedText, refusedText, waitText } from "../components/queue_text.js";
import { State } from "../components/state.js";

const LONG_S = 60;
/** @type {Record<string, [state: string, word: string]>} */
const SHOWN = { "": ["ready", "empty"], waiting: ["waiting", "queueing"], late: ["late", "slow"], refusing: ["refusing", "refusing"] };

/** Not there on a fleet whose replicas take as many as come. @param {{summary: import("../frames.js").FleetSummary}} props */
export function QueuePanel({ summary: { queue, capacity } }) {
  const [state, word] = SHOWN[queue.state] ?? ["waiting", queue.state];
  const past = queuedText(queue);
  const refused = refusedText(queue);
  if (capacity === null && !queue.state && !past && !refused) return "";
  return html`<section class="panel queue data" aria-labelledby="queue-title" data-queue=${queue.state || "room"}>
    <h2 id="queue-title">Queue</h2>
    <${State} state=${state} word=${word} />
    <span>${waitText(queue)}</span>
    ${past && html`<span class="muted">${past}</span>`}
    ${refused && html`<span class="is-down">${refused}</span>`}
    ${(past || refused) && html`<span class="muted">last 10 s</span>`}
    ${queue.short_for_s >= LONG_S && html`<span>no free slots for ${age(queue.short_for_s)}</span>`}
  </section>`;
}
