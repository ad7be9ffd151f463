/** Suggested replica name, derived from its URL. */

const LONGEST = 63;

/**
 * The host's own name, or its address; with the port when that is taken; then numbered.
 * @param {string} url @param {string[]} taken names that its fleet has
 */
export function suggestedName(url, taken) {
  const found = /^\s*(?:[a-z]+:\/\/)?(\[[^\]]+\]|[^/:\s]+)(?::(\d+))?/i.exec(url);
  if (!found) return "";
  const [, host, port] = found;
  const numeric = /^[\d.]+$/.test(host) || host.startsWith("[");
  const base = slug(numeric ? host : host.split(".")[0]);
  if (!base) return "";
  const candidates = [base, ...(port ? [slug(`${base}-${port}`)] : [])];
  for (let number = 2; number <= taken.length + 2; number++) candidates.push(slug(`${base}-${number}`));
  return candidates.find((one) => !taken.includes(one)) ?? "";
}

/** @param {string} text */
function slug(text) {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .slice(0, LONGEST)
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "");
}
