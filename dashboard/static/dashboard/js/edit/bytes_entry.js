/** A field for an amount of memory, which says below it what is understood. */
import { understood } from "../bytes.js";
import { html } from "../html.js";
import { TextEntry } from "./fields.js";

/** @param {{draft: import("./draft.js").Draft, name: string, label: string, placeholder?: string, required?: boolean, help?: string}} props */
export function BytesEntry({ help = "", ...props }) {
  const said = understood(props.draft.text(props.name));
  return html`<${TextEntry} ...${props} help=${said || help} />`;
}
