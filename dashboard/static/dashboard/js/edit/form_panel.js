/** Form panel: Enter submits, Escape closes, the first field has the focus. */
import { html, useLayoutEffect, useRef } from "../html.js";
import { Copyable } from "../components/copyable.js";

/**
 * @param {{title: any, draft: import("./draft.js").Draft, submit: () => void, close: () => void, action: string,
 *   danger?: boolean, ready?: boolean, command?: string, result?: any, tools?: any, children?: any}} props
 *   `action`: on the button; `ready`: false while it cannot be sent; `command`: the same for a terminal;
 *   `result`: what became of it; `tools`: more buttons
 */
export function FormPanel({ title, draft, submit, close, action, danger = false, ready = true, command, result, tools, children }) {
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => {
    const first = form.current?.querySelector("input, select");
    if (first instanceof HTMLElement) first.focus();
  }, []);
  const send = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!draft.busy && ready) submit();
  };
  const leave = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  const titleId = `${draft.id}-title`;
  return html`<section class="panel" aria-labelledby=${titleId}><form ref=${form} class="edit" noValidate onSubmit=${send} onKeyDown=${leave}>
    <div class="edit-head"><h2 id=${titleId}>${title}</h2><button type="button" class="plain" onClick=${close}>Close <kbd aria-hidden="true">Esc</kbd></button></div>
    ${children}
    <div class="row">
      <button class=${danger ? "danger" : "primary"} disabled=${draft.busy || !ready} aria-busy=${draft.busy}>${action}</button>
      ${tools}
      <span class="result" role="status">${draft.busy ? html`<span class="muted">Sending …</span>` : result}</span>
    </div>
    ${draft.problem && html`<p class="problem" role="alert">${draft.problem}</p>`}
    ${command && html`<${Copyable} label="The same as a command" text=${command} />`}
  </form></section>`;
}
