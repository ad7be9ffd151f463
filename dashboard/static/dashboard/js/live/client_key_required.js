/** Whether requests need a client key: as the server said in the page, then polled. */
import { api } from "../api.js";
import { root } from "./rendering.js";

const PERIOD_MS = 5_000;

export class ClientKeyRequired {
  any = root.dataset.keys === "yes";

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    setInterval(() => document.hidden || this.#read(), PERIOD_MS);
    document.addEventListener("visibilitychange", () => document.hidden || this.#read());
  }

  async #read() {
    try {
      const { data } = await api("GET", "/client-keys/settings");
      if (this.any === data.required) return;
      this.any = data.required;
      this.changed();
    } catch {
      // What was known last is shown until it is known better; the page itself says that the server is away.
    }
  }
}
