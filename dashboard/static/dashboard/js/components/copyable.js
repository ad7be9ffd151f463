/** Command line with a copy button. */
import { html, useState } from "../html.js";

const SAID_FOR_MS = 1500;

/** @param {{text: string, label?: string}} props */
export function Copyable({ text, label = "Command" }) {
  const [said, say] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("Select it");
    }
    setTimeout(() => say("Copy"), SAID_FOR_MS);
  };
  return html`<div class="copyable"><pre aria-label=${label}>${text}</pre><button type="button" onClick=${copy}>${said}</button></div>`;
}
