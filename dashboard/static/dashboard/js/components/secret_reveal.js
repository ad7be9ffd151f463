/** Secret reveal: a new key or token, shown once, with commands that use it. Gone when it is closed or the page is left. */
import { html, useEffect, useRef } from "../html.js";
import { Copyable } from "./copyable.js";

/**
 * @param {{title: string, what: string, secret: string, kept?: string, notes?: any, commands: [string, string][], done: () => void}} props
 *   `what`: "client key"; `commands`: label and line for a terminal
 */
export function SecretReveal({ title, what, secret, kept = "Only a keyed hash of it is kept.", notes, commands, done }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  // Later: the form that it comes after gives the focus back where it was.
  useEffect(() => heading.current?.focus(), []);
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && done();
  return html`<section class="panel edit" aria-labelledby="secret-title" onKeyDown=${leave}>
    <div class="edit-head"><h2 id="secret-title" ref=${heading} tabindex="-1">${title}</h2></div>
    <p><b>Copy the ${what} now: it cannot be shown again.</b> ${kept}${notes && html` ${notes}`}</p>
    <${Copyable} label=${`The ${what}`} text=${secret} />
    ${commands.map(([label, text]) => html`<p class="help">${label}</p><${Copyable} label=${label} text=${text} />`)}
    <div class="row"><button type="button" class="primary" onClick=${done}>I have copied it</button></div>
  </section>`;
}
