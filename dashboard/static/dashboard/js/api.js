/** REST API client: the same requests as the `curl` commands on the pages, with this page's session instead of a token. */

export const API = "/api/v1";
const TIME_LIMIT_MS = 10_000;

/** An error as text: the `detail` of an `application/problem+json` and of each field. */
export class ApiProblem extends Error {
  /**
   * @param {number} status 0: no response @param {string} message
   * @param {{pointer: string, detail: string}[]} [fields] each wrong field of the body, by its JSON pointer
   * @param {string} [confirm] token with which the same request is accepted: what it does must be meant
   */
  constructor(status, message, fields = [], confirm = "") {
    super(message);
    this.status = status;
    this.fields = fields;
    this.confirm = confirm;
  }
}

/**
 * @param {string} method @param {string} path below /api/v1
 * @param {{body?: unknown, etag?: string | null, confirm?: string}} [options] `etag`: refuse when somebody else wrote
 *   meanwhile; `confirm`: token of an ApiProblem
 * @returns {Promise<{data: any, etag: string | null}>} Ends within TIME_LIMIT_MS, and throws nothing but ApiProblem.
 */
export async function api(method, path, { body, etag, confirm } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRFToken"] = csrfToken();
  if (etag) headers["If-Match"] = etag;
  const signal = AbortSignal.timeout(TIME_LIMIT_MS);
  const json = body === undefined ? undefined : JSON.stringify(body);
  const query = confirm && `${path.includes("?") ? "&" : "?"}confirm=${confirm}`;
  try {
    const response = await fetch(API + path + (query || ""), { method, headers, body: json, signal });
    if (!response.ok) throw await problem(response);
    // The limit holds for the body too: the server may stop in the middle of it.
    const data = response.status === 204 ? null : await response.json();
    return { data, etag: response.headers.get("ETag") };
  } catch (error) {
    throw error instanceof ApiProblem ? error : new ApiProblem(0, noAnswer(error, signal));
  }
}

/** Browsers name the error of a late body differently, so the signal is asked. @param {unknown} error @param {AbortSignal} signal */
function noAnswer(error, { aborted }) {
  if (aborted) return `No response within ${TIME_LIMIT_MS / 1000} s.`;
  return error instanceof SyntaxError ? "The response is not JSON: it may come from a proxy in between." : "The server cannot be reached.";
}

/** @param {Response} response */
async function problem(response) {
  const { status } = response;
  // A page sends its session. 401 means that the session has ended, so the same request fails until a new sign-in.
  if (status === 401) return new ApiProblem(status, "You are signed out. Sign in again in another tab, then do this once more: what you typed stays here.");
  if (status === 412) return new ApiProblem(status, "Somebody else changed this meanwhile. Reload to see it, then try again.");
  try {
    const { title, detail, errors = [], confirm = "" } = await response.json();
    if (confirm) return new ApiProblem(status, `${detail.split(" To do it all the same")[0]} Do it once more to confirm.`, [], confirm);
    // One wrong field is named in `detail`; of several, each is named here.
    const more = errors.filter((/** @type {any} */ one) => !detail?.endsWith(one.detail));
    const fields = more.map((/** @type {any} */ one) => `${one.pointer.slice(1).replaceAll("/", ".")}: ${one.detail}`.replace(/^: /, ""));
    return new ApiProblem(status, [detail || title, ...fields].join(" "), errors);
  } catch {
    return new ApiProblem(status, `The server responded ${status} ${response.statusText}`.trim() + ".");
  }
}

function csrfToken() {
  return /(?:^|; )csrftoken=([^;]*)/.exec(document.cookie)?.[1] ?? "";
}

/** The same request as a line for a terminal. @param {string} method @param {string} path @param {unknown} [body] */
export function curl(method, path, body) {
  const json = body === undefined ? "" : ` \\\n  --json ${quoted(JSON.stringify(body))}`;
  return `curl -X ${method} ${location.origin}${API}${path} \\\n  -H "Authorization: Token $TOKEN"${json}`;
}

/** @param {string} value */
export function quoted(value) {
  return `'${value.replaceAll("'", "'\\''")}'`;
}
