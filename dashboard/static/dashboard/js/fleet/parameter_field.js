/** Form field of one strategy parameter, built from its schema. */
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { errorProps, FieldError } from "./field_error.js";

/** @param {{parameter: import("./policy.js").Parameter, policy: import("./policy.js").Policy}} props */
export function ParameterField({ parameter, policy }) {
  const id = `parameter-${parameter.name}`;
  const value = policy.value(parameter);
  const common = { id, disabled: policy.busy || !MAY_OPERATE, ...errorProps(policy, id) };
  const field =
    parameter.type === "boolean"
      ? html`<input ...${common} type="checkbox" checked=${value === "true"} onChange=${(/** @type {any} */ event) => policy.type(parameter.name, String(event.target.checked))} />`
      : html`<input ...${common} type="text" inputmode=${parameter.type === "string" ? "text" : "decimal"} value=${value}
          onInput=${(/** @type {any} */ event) => policy.type(parameter.name, event.target.value)} />`;
  return html`<div class="parameter"><div class="field"><label for=${id}>${parameter.name.replaceAll("_", " ")}</label>${field}</div>
    <p class="help" id=${`${id}-help`}>${[parameter.words, bounds(parameter)].filter(Boolean).join(" ")}</p><${FieldError} policy=${policy} id=${id} /></div>`;
}

/** @param {import("./policy.js").Parameter} parameter */
function bounds({ minimum, maximum, default: standard }) {
  const known = (/** @type {number | null} */ value) => value !== null && value !== undefined;
  const range = known(minimum) && known(maximum) ? `${minimum} to ${maximum}` : known(minimum) ? `at least ${minimum}` : known(maximum) ? `at most ${maximum}` : "";
  return `${range ? `${range[0].toUpperCase()}${range.slice(1)}; default` : "Default"} ${standard === "" ? "empty" : standard}.`;
}
