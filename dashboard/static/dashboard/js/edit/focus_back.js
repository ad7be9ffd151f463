/** Where the focus was before something opened, to be given back when it closes. */

export class FocusBack {
  /** @type {Element | null} */
  #from = null;

  remember() {
    this.#from = document.activeElement;
  }

  give() {
    if (this.#from instanceof HTMLElement && this.#from.isConnected) this.#from.focus();
  }
}
