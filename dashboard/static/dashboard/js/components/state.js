/** State badge: a shape, a word and a colour, everywhere the same. The words are those of the frames. */
import { html } from "../html.js";

/** Drawn in a 10 × 10 box. `line`: outlined instead of filled. @type {Record<string, {path: string, line?: boolean}>} */
const SHAPES = {
  ready: { path: "M5 .5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9Z" },
  active: { path: "M5 .5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9Z" },
  checking: { path: "M5 .5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9Zm0 1.3v6.4a3.2 3.2 0 1 1 0-6.4Z" },
  unready: { path: "M5 .6 9.8 9.3H.2Z" },
  down: { path: "M1 1h8v8H1Z" },
  draining: { path: "M5 .9 9.1 5 5 9.1.9 5Z", line: true },
  maintenance: { path: "M1.5 1h2.4v8H1.5ZM6.1 1h2.4v8H6.1Z" },
  refusing: { path: "M.8.8h8.4v2H.8ZM.8 4h8.4v2H.8ZM.8 7.2h8.4v2H.8Z" },
  late: { path: "M3 4h6.2v2H3ZM.8 7.2h8.4v2H.8Z" },
  waiting: { path: "M.8 7.2h8.4v2H.8Z" },
  firing: { path: "M5 .6 9.8 9.3H.2Z" },
  resolved: { path: "M5 .5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9Z" },
  followed: { path: "M5 .5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9Z" },
  frozen: { path: "M5 .6 9.8 9.3H.2Z" },
  failing: { path: "M1 1h8v8H1Z" },
  paused: { path: "M1.5 1h2.4v8H1.5ZM6.1 1h2.4v8H6.1Z" },
  ejected: { path: "M1.2 1.2 8.8 8.8M8.8 1.2 1.2 8.8", line: true },
};

/** Worst last; the order in which states are counted and listed. */
export const STATES = ["ready", "checking", "draining", "maintenance", "unready", "ejected", "down"];

/** @param {{state: string}} props */
export function Shape({ state }) {
  const shape = SHAPES[state] ?? SHAPES.ready;
  const look = shape.line ? { fill: "none", "stroke-width": 1.8 } : { "stroke-width": 0, "fill-rule": "evenodd" };
  return html`<svg class="shape is-${state}" viewBox="0 0 10 10" aria-hidden="true"><path d=${shape.path} ...${look} /></svg>`;
}

/** @param {{state: string, word?: string}} props */
export function State({ state, word = state }) {
  return html`<span class="state is-${state}"><${Shape} state=${state} />${word}</span>`;
}

/**
 * "1 checking · 2 draining · 1 with weight 0": what takes no requests, and why.
 * @param {{states: Record<string, number>, eligible: number, taking: number}} counts @param {string} [between]
 */
export function exceptions({ states, eligible, taking }, between = " · ") {
  const out = STATES.filter((state) => state !== "ready" && states[state]).map((state) => `${states[state]} ${state}`);
  if (eligible > taking) out.push(`${eligible - taking} with weight 0`);
  return out.join(between);
}
