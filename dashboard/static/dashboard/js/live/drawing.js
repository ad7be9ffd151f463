/** Where a page is drawn. What the server sent in there, the skeleton, stays until there is something to show. */
import { html, render } from "../html.js";

/** Its data attributes are what the server says of the page. */
export const place = /** @type {HTMLElement} */ (document.getElementById("app"));
let skeleton = true;

/** @param {() => any} content component @param {boolean} ready whether there is something to show; asked until there is */
export function show(content, ready) {
  if (skeleton && !ready) return;
  if (skeleton) place.replaceChildren();
  skeleton = false;
  render(html`<${content} />`, place);
}
