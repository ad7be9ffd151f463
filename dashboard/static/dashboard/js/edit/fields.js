/** Form fields: label, input, help text, error. */
import { html } from "../html.js";

/**
 * @typedef {{draft: import("./draft.js").Draft, name: string, label: string, help?: any, whole?: boolean, wrong?: string}} Common
 *   `wrong`: said instead of what the API said of the field
 */

/** @param {Common & {children?: any}} props */
function Entry({ draft, name, label, help, whole, wrong = draft.errors[name], children }) {
  const id = `${draft.id}-${name}`;
  return html`<div class=${`entry${whole ? " whole" : ""}`}>
    <label for=${id}>${label}</label>
    ${children}
    ${help && html`<span class="help" id=${`${id}-help`}>${draft.locked.has(name) ? draft.lockedWhy : help}</span>`}
    ${wrong && html`<span class="problem" role="alert" id=${`${id}-wrong`}>${wrong}</span>`}
  </div>`;
}

/** @param {Common} props */
function common({ draft, name, help, wrong = draft.errors[name] }) {
  const id = `${draft.id}-${name}`;
  const described = [help && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(" ");
  return { id, name, disabled: draft.fixed(name), "data-locked": draft.locked.has(name) || undefined, "aria-invalid": Boolean(wrong), "aria-describedby": described || undefined };
}

/**
 * @param {Common & {placeholder?: string, inputmode?: string, required?: boolean, onBlur?: () => void,
 *   onInput?: (value: string) => void}} props
 */
export function TextEntry(props) {
  const { draft, name, placeholder, inputmode = "text", required = false, onBlur, onInput } = props;
  const typed = (/** @type {any} */ event) => (draft.set(name, event.target.value), onInput?.(event.target.value));
  return html`<${Entry} ...${props}><input ...${common(props)} type="text" value=${draft.values[name]} placeholder=${placeholder}
    inputmode=${inputmode} aria-required=${required} autocomplete="off" autocapitalize="none" spellcheck=${false} onInput=${typed} onBlur=${onBlur} /><//>`;
}

/** @param {Common & {options: [string, string][], onPick?: () => void}} props `options`: value and words */
export function SelectEntry(props) {
  const { draft, name, options, onPick } = props;
  const picked = (/** @type {any} */ event) => (draft.set(name, event.target.value), onPick?.());
  return html`<${Entry} ...${props}><select ...${common(props)} value=${draft.values[name]} onChange=${picked}>
    ${options.map(([value, words]) => html`<option key=${value} value=${value} selected=${value === draft.values[name]}>${words}</option>`)}
  </select><//>`;
}

/** @param {Common & {words: string}} props `words`: what ticking it says */
export function CheckEntry(props) {
  const { draft, name, label, words, help } = props;
  return html`<div class="entry"><span class="label">${label}</span>
    <label class="check"><input ...${common(props)} type="checkbox" checked=${Boolean(draft.values[name])}
      onChange=${(/** @type {any} */ event) => draft.set(name, event.target.checked)} />${words}</label>
    ${help && html`<span class="help" id=${`${draft.id}-${name}-help`}>${help}</span>`}</div>`;
}
