/** Unicode code points of text: the only file that knows that JavaScript counts UTF-16 units.
 *
 * Laws:
 * 1. Offsets and cursors on the wire count code points. What is called `length`, `slice` or `before` here does, too.
 * 2. A lone surrogate counts as one code point, so that no piece of text has no length.
 * 3. Text without surrogates costs no walk.
 */

const SURROGATE = /[\ud800-\udfff]/;

/** How many code points a text has. */
export function length(text: string): number {
  if (!SURROGATE.test(text)) return text.length;
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The text before the code point at `offset`. */
export function before(text: string, offset: number): string {
  return text.slice(0, unitOf(text, offset));
}

/** The code points from `start` on, up to and without `end`. */
export function slice(text: string, start: number, end?: number): string {
  return end === undefined ? text.slice(unitOf(text, start)) : text.slice(unitOf(text, start), unitOf(text, end));
}

/** Where the code point at `offset` begins in UTF-16 units. */
export function unitOf(text: string, offset: number): number {
  if (offset <= 0) return 0;
  if (!SURROGATE.test(text)) return Math.min(offset, text.length);
  let units = 0;
  let left = offset;
  for (const point of text) {
    if (left === 0) break;
    units += point.length;
    left -= 1;
  }
  return units;
}
