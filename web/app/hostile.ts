/** Text of an agent, made safe to read: what cannot be seen is shown by its number.
 *
 * Law: nothing is left out. The text of the pieces, with each mark as the sign that it stands for, is the whole text.
 */

// Controls but newline and tab, soft hyphen, joiners, bidi, fillers, variation selectors, tags, lone surrogates.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;

export interface Piece {
  readonly text: string;
  /** What stands for it on the screen; blank where the text itself does. */
  readonly mark: string;
}

export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: "" });
    const number = (match[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    found.push({ text: match[0], mark: `‹U+${number}›` });
    from = match.index + match[0].length;
  }
  if (from < text.length || text === "") found.push({ text: text.slice(from), mark: "" });
  return found;
}

/** The same as one string. */
export function visible(text: string): string {
  return pieces(text).map((piece) => piece.mark || piece.text).join("");
}

/** A link that may be followed: http or https, and nothing else. */
export function safeLink(address: string): string | null {
  try {
    const url = new URL(address);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}
