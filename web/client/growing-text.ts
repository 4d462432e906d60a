/** Text that grows at its end, as a value. Long answers come in many small pieces: to add one must not copy the rest.
 *
 * Laws:
 * 1. It never changes. What was made of it by adding shares its pieces, and each sees its own.
 * 2. To add at the end costs what is added. Reading joins the pieces, once.
 */

import * as codepoints from "./codepoints.ts";

export class GrowingText {
  /** In code points. */
  readonly length: number;
  #pieces: string[];
  #count: number;
  #whole: string | null;

  constructor(text = "", pieces: string[] = [], length = 0) {
    pieces.push(text);
    this.#pieces = pieces;
    this.#count = pieces.length;
    this.#whole = pieces.length === 1 ? text : null;
    this.length = length + codepoints.length(text);
  }

  /** The same with `more` at its place; what stood from there on is gone. Null where that would leave a hole. */
  put(offset: number, more: string): GrowingText | null {
    if (offset > this.length) return null;
    if (offset < this.length) return new GrowingText(codepoints.before(this.text, offset) + more);
    if (more === "") return this;
    // Another value went on from here already, and keeps what it has.
    const pieces = this.#pieces.length === this.#count ? this.#pieces : [this.text];
    return new GrowingText(more, pieces, this.length);
  }

  get text(): string {
    if (this.#whole === null) {
      this.#whole = this.#pieces.slice(0, this.#count).join("");
      this.#pieces = [this.#whole]; // what comes of this from now on begins with the whole
      this.#count = 1;
    }
    return this.#whole;
  }
}

export const NO_TEXT = new GrowingText();
