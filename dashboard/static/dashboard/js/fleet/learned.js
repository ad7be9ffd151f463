/** Learned speed of a replica, under its times: how many times the fleet's usual it takes, and how surely. */
import { duration, text } from "../format.js";
import { html } from "../html.js";

const UNKNOWN = "How fast it is beside its fleet: nothing has been learned of it yet";
const RESTED = "How fast it is beside its fleet: there are too few recent requests to tell. It is taken to be nearly as its fleet, and tried again";

/** @param {{learned: import("../frames.js").LearnedLive | null}} props */
export function Learned({ learned }) {
  const [words, title] = !learned ? ["not learned yet", UNKNOWN] : learned.is_known ? known(learned) : ["not asked lately", RESTED];
  return html`<span class="sub across" data-cell="learned" title=${title}>${words}</span>`;
}

/** @param {import("../frames.js").LearnedLive} learned */
function known({ times_usual, error, request_s, requests }) {
  const often = times(times_usual);
  return [
    `${often} × ± ${(100 * (error - 1)).toFixed(0)} %`,
    `Learned: a request of mean size takes ${text(duration(request_s))} here, ${often} times what is usual in the fleet for its weight. Evidence: ${requests.toFixed(requests < 9.95 ? 1 : 0)} requests, recent ones above all`,
  ];
}

/** @param {number} factor */
function times(factor) {
  return factor < 0.995 ? factor.toFixed(2) : factor.toFixed(factor < 9.95 ? 1 : 0);
}
