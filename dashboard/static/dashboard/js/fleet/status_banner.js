/** Status banner of a fleet: is anything wrong, at which replica, and what to do. */
import { capital, duration, percent, plural, rate, sentence, text } from "../format.js";
import { html } from "../html.js";
import { coldStartText, refusedReason, waitText } from "../components/queue_text.js";

const ERROR_RATE_THRESHOLD_PERCENT = 1;
const OUT = ["down", "ejected", "unready"];

/** @param {import("../frames.js").FleetFrame} frame @returns {import("../components/banner.js").BannerStatus} */
export function status({ summary, replicas, workers, workers_current: current }) {
  const hit = replicas.filter((replica) => OUT.includes(replica.state));
  const weightless = replicas.filter((replica) => replica.eligible && !replica.weight);
  const rest = html`${weightless.length > 0 && ofWeightZero(weightless)}${takes(summary.taking)} the requests.`;
  if (summary.cold) return loading(summary.cold, summary.queue, replicas);
  const [level, meanwhile] = summary.covered ? /** @type {const} */ (["warn", "Requests fall back to another fleet."]) : /** @type {const} */ (["bad", "Requests are answered with 503."]);
  if (!summary.eligible) {
    return { level, title: "No replica is eligible", text: html`${meanwhile} ${reasons(replicas)}` };
  }
  if (!summary.taking) {
    return { level, title: "All replicas have weight 0", text: html`${meanwhile} ${ofWeightZero(weightless)}Give one a weight above 0.` };
  }
  if (summary.queue.state === "refusing") return refusing(summary);
  if (summary.error_percent >= ERROR_RATE_THRESHOLD_PERCENT) {
    const failing = replicas.filter((replica) => replica.errors_per_s > 0);
    return {
      level: "bad",
      title: "Requests fail",
      text: html`<b>${text(percent(summary.error_percent))}</b> are answered with an error${failing.length > 0 && html`, those of <b>${failing.map((one) => one.name).join(", ")}</b>`}.
        ${" "}${hit.length > 0 ? reasons(hit) : "Drain a failing replica to take it out of rotation."}`,
    };
  }
  if (summary.queue.state === "late") return late(summary, hit);
  if (hit.length) return { level: "warn", title: `${plural(hit.length, "replica")} out of rotation`, text: html`${reasons(hit)} ${rest}` };
  if (current < workers) {
    return { level: "notice", title: "A change is being rolled out", text: `${current} of ${plural(workers, "worker")} use the newest routing table.` };
  }
  const waiting = replicas.filter((replica) => !replica.eligible);
  const partly = (waiting.length > 0 || weightless.length > 0) && html`${reasons(waiting)} ${rest}`;
  if (summary.unserved_adapters.length) return unserved(summary.unserved_adapters, partly);
  if (summary.would_refuse !== null) return exposing(summary.would_refuse, partly);
  if (partly) return { level: "calm", title: "Nothing is wrong", text: partly };
  return { level: "calm", title: "All is well", text: `${takes(summary.replicas)} requests, through ${plural(workers, "proxy worker")}.` };
}

/** @param {string[]} adapters @param {any} partly as of `exposing` @returns {import("../components/banner.js").BannerStatus} */
function unserved(adapters, partly) {
  const more = adapters.length - NAMED;
  const names = html`<b>${adapters.slice(0, NAMED).join(", ")}</b>${more > 0 && ` and ${more} more`}`;
  const title = `No replica serves ${adapters.length === 1 ? "an adapter" : "some adapters"}`;
  return { level: "notice", title, text: html`${partly}Requests for ${names} are answered with 503. Add ${adapters.length === 1 ? "it" : "them"} to the adapters of a replica, or remove ${adapters.length === 1 ? "it" : "them"} from the fleet's.` };
}

/**
 * A fleet from before the setting. @param {number} requests that would be refused
 * @param {any} partly which replicas take no requests, or false: it comes first
 * @returns {import("../components/banner.js").BannerStatus}
 */
function exposing(requests, partly) {
  const count = requests ? html`<b>${plural(requests, "request")}</b> since the proxies started would be refused: the proxies' logs say which.` : "No request since the proxies started would be refused.";
  const title = "Clients reach every path of the replicas";
  return {
    level: "notice",
    title: partly ? "Not all replicas take requests" : title,
    text: html`${partly && html`${partly} <b>${title}.</b> `}Management paths are open too, because this fleet does not say what it exposes. Set “Exposed paths” to “calls of its API” under “Edit fleet”. ${count}`,
  };
}

/** @param {import("../frames.js").ColdLive} cold @param {import("../frames.js").QueueLive} queue @param {import("../frames.js").ReplicaLive[]} replicas @returns {import("../components/banner.js").BannerStatus} */
function loading(cold, queue, replicas) {
  const meanwhile = queue.holds ? `Requests wait in the queue, up to ${text(duration(queue.timeout_s))}.` : "Until then requests are answered with 503 and Retry-After.";
  return { level: "warn", title: "No replica is ready yet", text: html`${sentence(capital(coldStartText(cold)))} ${meanwhile} ${reasons(replicas.filter((one) => one.state !== "ready"))}` };
}

/** @param {import("../frames.js").FleetSummary} summary @returns {import("../components/banner.js").BannerStatus} */
function refusing({ queue, error_percent: errors }) {
  const last = queue.size ? `${refusedReason(queue)}: ${waitText(queue)}.` : "No replica has a free slot, and the queue size is 0.";
  return {
    level: "bad",
    title: "Requests are refused",
    text: html`<b>${text(rate(queue.full_per_s + queue.late_per_s))}</b> are answered with 503. ${last} Add replicas or raise max concurrency${queue.size > 0 && "; a longer queue only adds waiting time"}.${errors >= ERROR_RATE_THRESHOLD_PERCENT && ` ${text(percent(errors))} are answered with an error.`}`,
  };
}

/** @param {import("../frames.js").FleetSummary} summary @param {import("../frames.js").ReplicaLive[]} out @returns {import("../components/banner.js").BannerStatus} */
function late({ queue }, out) {
  return { level: "warn", title: "Requests wait long", text: html`${capital(waitText(queue))}; after ${text(duration(queue.timeout_s))} in the queue a request is answered with 503. ${reasons(out)}` };
}

/** "1 replica takes", "3 replicas take". @param {number} number */
function takes(number) {
  return `${plural(number, "replica")} ${number === 1 ? "takes" : "take"}`;
}

/** "a, b have weight 0: no new requests go there." @param {import("../frames.js").ReplicaLive[]} replicas */
function ofWeightZero(replicas) {
  const more = replicas.length - NAMED;
  const names = replicas.slice(0, NAMED).map((one) => one.name).join(", ");
  return html`<b>${names}</b>${more > 0 && ` and ${more} more`} ${replicas.length === 1 ? "has" : "have"} weight 0: no new requests go there. `;
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
