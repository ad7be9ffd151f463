/** Memory sizes: parses what people type (16 GiB), formats what people read. */

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
/** Powers of 1024 (also as Kubernetes writes them: Gi) and, as on a disk's label, of 1000. @type {Record<string, number>} */
const FACTORS = { "": 1, b: 1, byte: 1, bytes: 1 };
for (const [index, letter] of [..."kmgtp"].entries()) {
  FACTORS[`${letter}ib`] = FACTORS[`${letter}i`] = 1024 ** (index + 1);
  FACTORS[`${letter}b`] = 1000 ** (index + 1);
}

/**
 * "16 GiB", "1,5GiB", "17179869184", "17 179 869 184 bytes" → bytes; nothing: null; anything else as typed, for
 * the API to say what is wrong. @param {string} text @returns {number | string | null}
 */
export function parseBytes(text) {
  if (text === "") return null;
  const plain = text.replace(/[\s_]/g, "").toLowerCase();
  // One comma is a decimal one, several stand between thousands.
  const found = /^([\d.]+)([a-z]*)$/.exec(/^\d{1,3}(,\d{3}){2,}/.test(plain) ? plain.replaceAll(",", "") : plain.replace(",", "."));
  const factor = found ? FACTORS[found[2]] : undefined;
  const bytes = found && factor ? Number(found[1]) * factor : NaN;
  if (Number.isNaN(bytes)) return text;
  return factor === 1 ? bytes : Math.round(bytes);
}

/** With four digits at most, as the API's messages say it. @param {number | null | undefined} bytes @returns {import("./format.js").Quantity} */
export function bytes(bytes) {
  if (bytes === null || bytes === undefined) return ["–", ""];
  let [size, unit] = [bytes, 0];
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
  return [String(Number(size.toPrecision(4))), bytes === 1 ? "byte" : UNITS[unit]];
}

/** A larger number says less than its bytes. */
const MOST = 100_000;

/** In a form's field: exact, and short where it can be. @param {number | null | undefined} bytes */
export function typed(bytes) {
  if (bytes === null || bytes === undefined) return "";
  for (let unit = UNITS.length - 1; unit > 0; unit--) {
    const size = Number((bytes / 1024 ** unit).toFixed(3));
    if (size >= 1 && size < MOST && size * 1024 ** unit === bytes) return `${size} ${UNITS[unit]}`;
  }
  return `${bytes} bytes`;
}

/** What is understood of a field, for the words under it; empty: nothing was typed. @param {string} text */
export function understood(text) {
  const read = parseBytes(text);
  if (read === null) return "";
  if (typeof read === "string") return "Not understood: write 16 GiB, 512 MiB or a number of bytes.";
  const [size, unit] = bytes(read);
  return read < 1024 ? `Understood as ${size} ${unit}.` : `Understood as ${size} ${unit}: ${read.toLocaleString("en")} bytes.`;
}
