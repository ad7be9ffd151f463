/** Scaling panel: how many replicas the fleet needs, by its load, and why. Whatever scales it reads the same. */
import { plural } from "../format.js";
import { html } from "../html.js";
import { State } from "../components/state.js";

/** Not there while no proxy reports. @param {{signal: import("../frames.js").ScalingSignal | null}} props */
export function ScalingPanel({ signal }) {
  if (!signal) return "";
  const { desired, taking, starting, words } = signal;
  const [state, word] = verdict(desired, taking + starting);
  return html`<section class="panel queue data" aria-labelledby="scaling-title" data-scaling=${state}>
    <h2 id="scaling-title">Replicas needed</h2>
    <${State} state=${state} word=${word} />
    <span>${taking} of ${plural(desired ?? taking, "replica")} take requests${starting > 0 && `, ${starting} ${starting === 1 ? "starts" : "start"}`}</span>
    <span class="muted">${words.replace(/^cannot tell( yet)?: /, "")}</span>
  </section>`;
}

/** @param {number | null} desired @param {number} there @returns {[state: string, word: string]} */
function verdict(desired, there) {
  if (desired === null) return ["checking", "cannot tell"];
  if (desired > there) return ["late", `${desired}, ${desired - there} more`];
  if (desired < there) return ["ready", `${desired}, ${there - desired} to spare`];
  return ["ready", `${desired}, as there are`];
}
