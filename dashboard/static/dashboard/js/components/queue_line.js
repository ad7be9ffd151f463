/** Queue state of a fleet in one line: how many requests wait, how many are refused. Nothing while the queue is empty. */
import { age, count, rate, text } from "../format.js";
import { html } from "../html.js";
import { State } from "./state.js";

/** @param {{queue: import("../frames.js").QueueLive}} props */
export function QueueLine({ queue }) {
  const { state, waiting, size, oldest_wait_s: oldest, full_per_s: full, late_per_s: late } = queue;
  if (!state) return "";
  const refused = full + late;
  const word = { late: "slow", waiting: "queue" }[state] ?? state;
  const about = waiting ? `${count(waiting)} of ${count(size)} queued, ${age(oldest)}` : "";
  return html`<span class="sub" data-queue=${state}><${State} state=${state} word=${word} /> ${[about, refused > 0 && `${text(rate(refused))} refused`].filter(Boolean).join(" · ")}</span>`;
}
