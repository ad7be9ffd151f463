/** Panel switch: one form of a page is open at a time; closing it returns the focus to the button that opened it. */
import { FocusRestore } from "./focus_restore.js";

export class PanelSwitch {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** The open one's name, or "". */
    this.open = "";
    this.focus = new FocusRestore();
    for (const button of buttons()) button.addEventListener("click", () => this.toggle(button.dataset.panel ?? ""));
    this.#mark();
  }

  /** @param {string} name */
  toggle(name) {
    if (this.open === name) this.close();
    else this.show(name);
  }

  /** @param {string} name */
  show(name) {
    // From one form to another it is still the first button that is gone back to.
    if (!this.open) this.focus.remember();
    this.open = name;
    this.#mark();
    this.changed();
  }

  close() {
    this.open = "";
    this.#mark();
    this.changed();
    this.focus.restore();
  }

  /** To the header's first button: what had the focus is gone. */
  focusFirst() {
    buttons()[0]?.focus();
  }

  #mark() {
    for (const button of buttons()) {
      button.setAttribute("aria-expanded", String(button.dataset.panel === this.open));
      button.disabled = false;
    }
  }
}

/** Those that the server put into the header. @returns {HTMLButtonElement[]} */
function buttons() {
  return [...document.querySelectorAll("button[data-panel]")].filter((one) => one instanceof HTMLButtonElement);
}
