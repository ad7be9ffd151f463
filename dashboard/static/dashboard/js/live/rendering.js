/** Rendering of a page. The skeleton that the server sent stays until there is something to show. */
import { html, render } from "../html.js";

/** Its data attributes are what the server says of the page. */
export const root = /** @type {HTMLElement} */ (document.getElementById("app"));
let skeleton = true;
let drawing = false;
/** Asked for while the page was being drawn. @type {(() => any) | null} */
let due = null;

/**
 * Never one inside another. Some browsers fire `blur` the moment a field with the focus is disabled or removed, which
 * drawing does; a draw that such a handler asks for comes after the one that runs. Inside it, the two would lose track
 * of each other's elements, and leave a dead copy of the page behind.
 * @param {() => any} content component @param {boolean} ready whether there is something to show; asked until there is
 */
export function renderPage(content, ready) {
  if (skeleton && !ready) return;
  due = content;
  if (drawing) return;
  if (skeleton) root.replaceChildren();
  skeleton = false;
  drawing = true;
  try {
    while (due) {
      const next = due;
      due = null;
      render(html`<${next} />`, root);
    }
  } finally {
    drawing = false;
  }
}
