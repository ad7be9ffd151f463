/** Page header of a fleet: protocol, aliases, adapters. The server wrote it; it follows every later change. */
import { protocolText } from "../edit/fleet_fields.js";

/** @typedef {{protocol: string, aliases: string[], adapters: string[]}} Names */

export class Heading {
  /** Of the newest frame. An unchanged frame may be older than what was just saved. */
  #framed = "";

  /** @param {string} protocol as the server wrote it */
  constructor(protocol) {
    this.protocol = protocol;
  }

  /** @param {Names & {default: boolean}} fleet as the API answers it */
  saved(fleet) {
    this.#say(fleet);
    const mark = tag("default");
    if (mark) mark.hidden = !fleet.default;
  }

  /** @param {import("../frames.js").FleetSummary} summary */
  frame({ protocol, aliases, adapters }) {
    const framed = JSON.stringify([protocol, aliases, adapters]);
    if (framed === this.#framed) return;
    this.#framed = framed;
    this.#say({ protocol, aliases, adapters });
  }

  /** @param {Names} fleet */
  #say({ protocol, aliases, adapters }) {
    this.protocol = protocol;
    const spoken = tag("spoken");
    if (spoken) spoken.textContent = protocolText(protocol);
    list("aliases", "Aliases:", aliases);
    list("adapters", "LoRA adapters:", adapters);
  }
}

/** Where there is no room for all of them, the title says them. @param {string} name @param {string} what @param {string[]} names */
function list(name, what, names) {
  const element = tag(name);
  if (!element) return;
  element.textContent = names.join(", ");
  element.title = `${what} ${element.textContent}`;
  element.hidden = !names.length;
}

/** @param {string} name @returns {HTMLElement | null} */
function tag(name) {
  return document.querySelector(`[data-${name}]`);
}
