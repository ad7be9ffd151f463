/** Is anything wrong with this fleet, with which replica, and what to do. */
import { percent, plural, text } from "../format.js";
import { html } from "../html.js";

const ERRORS_THAT_MATTER_PERCENT = 1;
const OUT = ["down", "ejected", "unready"];

/** @param {import("../frames.js").FleetFrame} frame @returns {import("../parts/banner.js").Verdict} */
export function verdict({ summary, replicas, workers, workers_current: current }) {
  const hit = replicas.filter((replica) => OUT.includes(replica.state));
  if (!summary.eligible) {
    return { level: "bad", title: "No replica is eligible", text: html`Requests are answered with 503. ${reasons(replicas)}` };
  }
  if (summary.error_percent >= ERRORS_THAT_MATTER_PERCENT) {
    const failing = replicas.filter((replica) => replica.errors_per_s > 0);
    return {
      level: "bad",
      title: "Requests fail",
      text: html`<b>${text(percent(summary.error_percent))}</b> are answered with an error${failing.length > 0 && html`, those of <b>${failing.map((one) => one.name).join(", ")}</b>`}.
        ${" "}${hit.length > 0 ? reasons(hit) : "Drain a failing replica to take it out."}`,
    };
  }
  if (hit.length) {
    return { level: "warn", title: `${plural(hit.length, "replica")} out`, text: html`${reasons(hit)} ${plural(summary.eligible, "replica")} ${summary.eligible === 1 ? "takes" : "take"} the requests.` };
  }
  if (current < workers) {
    return { level: "notice", title: "A change is on its way", text: `${current} of ${plural(workers, "worker")} route from the newest table.` };
  }
  const waiting = replicas.filter((replica) => !replica.eligible);
  if (waiting.length) return { level: "calm", title: "Nothing is wrong", text: html`${reasons(waiting)} ${plural(summary.eligible, "replica")} ${summary.eligible === 1 ? "takes" : "take"} the requests.` };
  return { level: "calm", title: "All is well", text: `${plural(summary.replicas, "replica")} ${summary.replicas === 1 ? "takes" : "take"} requests, through ${plural(workers, "proxy worker")}.` };
}

const NAMED = 3;

/** "b is ejected: 5 timeouts in 8 s." for the first few. @param {import("../frames.js").ReplicaLive[]} replicas */
function reasons(replicas) {
  const more = replicas.length - NAMED;
  return html`${replicas.slice(0, NAMED).map((replica) => html`<b>${replica.name}</b> is ${replica.state}${why(replica)}. `)}${more > 0 && `And ${more} more. `}`;
}

/** @param {import("../frames.js").ReplicaLive} replica */
function why({ why: words, state }) {
  const said = words.replace(/\.$/, "");
  return said && said !== state ? `: ${said}` : "";
}
