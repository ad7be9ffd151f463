/** List page: one list of the API, polled, searched, and added to by a form. */
import { PanelSwitch } from "../edit/panel_switch.js";
import { Polling } from "./polling.js";
import { html } from "../html.js";
import { searchField } from "../components/search.js";
import { renderPage } from "./rendering.js";

/**
 * What one page has of its own. `form`: makes a new one. `table`: the rows; `empty`: says so, and what to do.
 * `above`, `below`: around them. @typedef {{form: () => any, table: (list: any[]) => any, empty: () => any,
 *   above?: () => any, below?: () => any}} Own
 */

export class ListPage {
  /** What is in the search field. */
  search = "";
  /** @type {Own | null} */
  #own = null;

  /**
   * @param {string} path of the list, below /api/v1 @param {string} what it lists, in words: "API tokens"
   * @param {boolean} [quiet] what is live on it is something else, whose age the badge says
   */
  constructor(path, what, quiet = false) {
    this.what = what;
    this.draw = this.draw.bind(this);
    this.polling = new Polling(path, this.draw, quiet);
    this.panels = new PanelSwitch(this.draw);
  }

  /** From here on the page lives. @param {Own} own */
  start(own) {
    this.#own = own;
    searchField({ changed: (words) => ((this.search = words), this.draw()) });
    this.polling.start();
  }

  draw() {
    const { list, problem } = this.polling;
    if (this.#own) renderPage(this.#page, Boolean(list || problem));
  }

  /** One component for as long as the page lives: another one would be drawn from nothing. */
  #page = () => {
    const { list, problem } = this.polling;
    const adding = this.panels.open === "new";
    const { form, table, empty, above, below } = /** @type {Own} */ (this.#own);
    return html`${problem && html`<p class="panel problem" role="alert">The ${this.what} could not be read: ${problem}${list && " Shown is what was read last."} Trying again.</p>`}
      ${above?.()}
      ${adding && form()}
      ${list && (list.length ? table(list) : !adding && empty())}
      ${list && below?.()}`;
  };
}
