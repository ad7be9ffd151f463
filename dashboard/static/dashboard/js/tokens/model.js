/** What the page of API tokens does: make and revoke, each with what became of it. */
import { Draft } from "../edit/draft.js";
import { FocusBack } from "../edit/focus_back.js";

export const PATH = "/tokens";

/**
 * @typedef {{id: number, name: string, prefix: string, user: string, created_at: string, last_used_at: string | null}} Token
 * @typedef {Token & {token: string}} Made
 */

export class TokensModel {
  /**
   * @param {import("../edit/reading.js").Reading} reading @param {import("../edit/panels.js").Panels} panels
   * @param {() => void} changed
   */
  constructor(reading, panels, changed) {
    this.reading = reading;
    this.panels = panels;
    this.changed = changed;
    this.draft = new Draft("new-token", { name: "" }, changed);
    /** The one that is about to be revoked. */
    this.revoking = 0;
    this.row = new Draft("revoke-token", {}, changed);
    /** Of a token that was just made: with the token itself. @type {Made | null} */
    this.made = null;
    this.done = "";
    this.focus = new FocusBack();
  }

  async create() {
    const answer = await this.draft.send("POST", PATH, { name: this.draft.text("name") });
    if (!answer) return;
    this.draft.reset();
    this.made = answer.data;
    this.done = "";
    this.reading.list = [answer.data, ...(this.reading.list ?? [])];
    this.panels.close();
    await this.reading.read();
  }

  /** The token itself leaves the page. */
  forget() {
    this.made = null;
    this.changed();
    this.panels.focusFirst();
  }

  /** @param {Token} one */
  open(one) {
    this.focus.remember();
    this.revoking = one.id;
    this.row.reset({});
  }

  close() {
    this.revoking = 0;
    this.changed();
    this.focus.give();
  }

  /** @param {Token} one */
  async revoke(one) {
    if (!(await this.row.send("DELETE", `${PATH}/${one.id}`))) return;
    this.revoking = 0;
    if (this.made?.id === one.id) this.made = null;
    this.done = `${one.name} is revoked.`;
    this.reading.list = (this.reading.list ?? []).filter((other) => other.id !== one.id);
    this.changed();
    await this.reading.read();
    this.panels.focusFirst();
  }
}
