/** What the API said is wrong with a field of the policy panel: shown at the field, and told with it. */
import { html } from "../html.js";

/** What tells that a field is wrong, and why, to whoever does not see it. @param {import("./policy.js").Policy} policy @param {string} id */
export function told(policy, id) {
  const wrong = Boolean(policy.errors[id]);
  return { "aria-invalid": wrong, "aria-describedby": `${id}-help${wrong ? ` ${id}-wrong` : ""}` };
}

/** @param {{policy: import("./policy.js").Policy, id: string}} props */
export function Wrong({ policy, id }) {
  const wrong = policy.errors[id];
  return wrong && html`<p class="problem" role="alert" id=${`${id}-wrong`}>${wrong}</p>`;
}
