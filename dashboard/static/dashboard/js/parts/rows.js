/** Long tables keep only the rows near the window in the page; the rest is two empty rows of the right height. */
import { html, useEffect, useRef, useState } from "../html.js";

const LONG = 80;
const SPARE = 12;

/**
 * `<tbody>` of many rows of about the same height.
 * @param {{items: any[], height: number, columns: number, row: (item: any) => any}} props
 */
export function Rows({ items, height, columns, row }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const [range, setRange] = useState([0, LONG]);
  const long = items.length > LONG;

  useEffect(() => {
    if (!long) return undefined;
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / height) - SPARE);
      const to = Math.ceil((innerHeight - top) / height) + SPARE;
      setRange((/** @type {number[]} */ old) => (old[0] === from && old[1] === to ? old : [from, to]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [long, height]);

  const [from, to] = long ? [range[0], Math.min(items.length, range[1])] : [0, items.length];
  return html`<tbody ref=${body}>
    ${long && html`<${Gap} rows=${from} height=${height} columns=${columns} />`}
    ${items.slice(from, to).map(row)}
    ${long && html`<${Gap} rows=${items.length - to} height=${height} columns=${columns} />`}
  </tbody>`;
}

/** @param {{rows: number, height: number, columns: number}} props */
function Gap({ rows, height, columns }) {
  return html`<tr class="gap" aria-hidden="true"><td colspan=${columns} style=${{ height: `${Math.max(0, rows) * height}px` }}></td></tr>`;
}
