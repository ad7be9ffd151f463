/** Field error of the policy panel: what the API refused, shown at the field and announced with it. */
import { html } from "../html.js";

/** What tells that a field is wrong, and why, to whoever does not see it. @param {import("./policy.js").Policy} policy @param {string} id */
export function errorProps(policy, id) {
  const wrong = Boolean(policy.errors[id]);
  return { "aria-invalid": wrong, "aria-describedby": `${id}-help${wrong ? ` ${id}-wrong` : ""}` };
}

/** @param {{policy: import("./policy.js").Policy, id: string}} props */
export function FieldError({ policy, id }) {
  const wrong = policy.errors[id];
  return wrong && html`<p class="problem" role="alert" id=${`${id}-wrong`}>${wrong}</p>`;
}
