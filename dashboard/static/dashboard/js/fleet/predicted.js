/** How good a fleet's predictions are: the median error, and the share of requests within their interval. */
import { html } from "../html.js";
import { Fact } from "./fact.js";

const MEANING = "Median error of the time predicted for a sample of requests, in percent of what it took, since the proxies started. The interval is predicted for 80 % of them";

/** @param {{predictions: import("../frames.js").PredictionsLive | null}} props */
export function Predicted({ predictions }) {
  if (!predictions) return html`<${Fact} name="Predictions"><span data-cell="predictions">none compared yet</span></${Fact}>`;
  const { completion, first_token } = predictions;
  return html`<${Fact} name="Predictions"><div data-cell="predictions" title=${MEANING}>
    <${Error} what="completion" of=${completion} />${first_token && html`<${Error} what="first token" of=${first_token} />`}</div></${Fact}>`;
}

/** @param {{what: string, of: import("../frames.js").PredictedLive}} props */
function Error({ what, of: { error_percent, within_percent, compared } }) {
  return html`<div>${what} ± ${error_percent.toFixed(0)} %<p class="help">${within_percent.toFixed(0)} % of ${compared.toLocaleString("en")} within their interval; 80 % is right</p></div>`;
}
