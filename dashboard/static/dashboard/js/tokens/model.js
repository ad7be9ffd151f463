/** State and actions of the API tokens page: create and revoke. */
import { Draft } from "../edit/draft.js";
import { FocusRestore } from "../edit/focus_restore.js";
import { initialSettings, settingsOf } from "./settings.js";

export const PATH = "/tokens";

/**
 * @typedef {{id: number, name: string, prefix: string, user: string, created_at: string, last_used_at: string | null}
 *   & import("./settings.js").Settings} Token
 * @typedef {Token & {token: string}} Made
 */

export class TokensModel {
  /**
   * @param {import("../live/polling.js").Polling} polling @param {import("../edit/panel_switch.js").PanelSwitch} panels
   * @param {() => void} changed
   */
  constructor(polling, panels, changed) {
    this.polling = polling;
    this.panels = panels;
    this.changed = changed;
    this.draft = new Draft("new-token", initialSettings(), changed);
    /** The one that is about to be revoked. */
    this.revoking = 0;
    this.row = new Draft("revoke-token", {}, changed);
    /** Of a token that was just made: with the token itself. @type {Made | null} */
    this.made = null;
    this.done = "";
    this.focus = new FocusRestore();
  }

  async create() {
    const answer = await this.draft.send("POST", PATH, settingsOf(this.draft));
    if (!answer) return;
    this.draft.reset();
    this.made = answer.data;
    this.done = "";
    this.polling.list = [answer.data, ...(this.polling.list ?? [])];
    this.panels.close();
    await this.polling.read();
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
    this.focus.restore();
  }

  /** @param {Token} one */
  async revoke(one) {
    if (!(await this.row.send("DELETE", `${PATH}/${one.id}`))) return;
    this.revoking = 0;
    if (this.made?.id === one.id) this.made = null;
    this.done = `${one.name} is revoked.`;
    this.polling.list = (this.polling.list ?? []).filter((other) => other.id !== one.id);
    this.changed();
    await this.polling.read();
    this.panels.focusFirst();
  }
}
