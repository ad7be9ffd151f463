/** What can be moved away from replicas that are to be free, what has been, and what stays and why; as text. */
import { compact, plural } from "../format.js";
import { html } from "../html.js";

/** @typedef {import("../frames.js").MovingLive} MovingLive */

/** Of several replicas together; null: nothing is known of any. @param {(MovingLive | null)[]} each @returns {MovingLive | null} */
export function together(each) {
  const known = each.filter((one) => one !== null);
  if (!known.length) return null;
  const total = (/** @type {(one: MovingLive) => number} */ number) => known.reduce((sum, one) => sum + number(one), 0);
  /** @type {Map<string, import("../frames.js").StayingLive>} */
  const staying = new Map();
  for (const one of known.flatMap(({ staying }) => staying)) staying.set(one.reason, { ...one, requests: one.requests + (staying.get(one.reason)?.requests ?? 0) });
  return {
    movable: total((one) => one.movable),
    movable_prompt_tokens: total((one) => one.movable_prompt_tokens),
    staying: [...staying.values()].sort((one, other) => other.requests - one.requests),
    moved: total((one) => one.moved),
    moved_prompt_tokens: total((one) => one.moved_prompt_tokens),
  };
}

/** "2 not streamed, 1 with calls of tools" @param {MovingLive} moving */
const stays = ({ staying }) => staying.map(({ requests, words }) => `${requests} ${words}`).join(", ");

/** What a drain would do with them. @param {{moving: MovingLive, move: boolean, flying: number}} props `flying`: requests in flight */
export function Plan({ moving, move, flying }) {
  const { movable, movable_prompt_tokens: tokens } = moving;
  const stay = flying - movable;
  const others = stays(moving);
  if (!move) return html`<p>All ${plural(flying, "request")} in flight ${flying === 1 ? "finishes" : "finish"} there. ${movable > 0 && `${movable} could be moved.`}</p>`;
  if (movable === 0) return html`<p>All ${plural(flying, "request")} in flight ${flying === 1 ? "finishes" : "finish"} there${others && `: ${others}`}.</p>`;
  return html`<p><b>${movable} of ${plural(flying, "request")}</b> in flight ${movable === 1 ? "goes" : "go"} on at other replicas, once these have room: they read some <b>${compact(tokens)} prompt tokens</b> for that.
    ${" "}${stay > 0 && `${stay} ${stay === 1 ? "finishes" : "finish"} there${others && `: ${others}`}.`}</p>`;
}

/** What is left at a replica that is to be free. @param {{moving: MovingLive}} props */
export function Left({ moving }) {
  const { movable, moved, moved_prompt_tokens: tokens } = moving;
  const left = [movable > 0 && `${movable} waiting for room elsewhere`, stays(moving)].filter(Boolean).join(", ");
  return html`${left && html`<span class="muted">${left}</span>`}
    ${moved > 0 && html`<span class="muted">${moved} moved, for some ${compact(tokens)} prompt tokens</span>`}`;
}
