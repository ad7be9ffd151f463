/** Focus restore: remembers what had the focus before a form opened, and focuses it again when the form closes. */

export class FocusRestore {
  /** @type {Element | null} */
  #from = null;

  remember() {
    this.#from = document.activeElement;
  }

  restore() {
    if (this.#from instanceof HTMLElement && this.#from.isConnected) this.#from.focus();
  }
}
