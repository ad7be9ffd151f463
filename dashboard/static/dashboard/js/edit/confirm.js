/** Confirmation form in a row, before something is removed or revoked: what it does, the button with the focus, Escape goes back. */
import { html, useLayoutEffect, useRef } from "../html.js";
import { Copyable } from "../components/copyable.js";

/**
 * @param {{action: string, of?: string, busy: boolean, problem?: string, confirm: () => void, close: () => void,
 *   back?: () => void, command: string, children?: any}} props
 *   `action`: on the button; `of`: said after it to who cannot see the row; `back`: to where it was asked for, if it
 *   is not closed by that; `command`: the same for a terminal; `children`: what it does
 */
export function Confirm({ action, of = "", busy, problem, confirm, close, back, command, children }) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useLayoutEffect(() => button.current?.focus(), []);
  const submit = (/** @type {SubmitEvent} */ event) => (event.preventDefault(), busy || confirm());
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close();
  return html`<form class="edit in-row" aria-label=${`${action}${of}`} onSubmit=${submit} onKeyDown=${leave}>
    ${children}
    <div class="row"><button ref=${button} class="danger" disabled=${busy} aria-busy=${busy}>${action}</button>
      <button type="button" onClick=${back ?? close}>${back ? "Back" : "Cancel"}</button></div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <${Copyable} label="The same as a command" text=${command} />
  </form>`;
}
