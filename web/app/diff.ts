/** What an edit would change, line by line. Where comparing would take too long, all of it counts as replaced. */

export interface DiffLine {
  readonly sign: " " | "-" | "+";
  readonly text: string;
}

const MAX_CELLS = 1_000_000;

export function diffLines(before: string, after: string): DiffLine[] {
  const [one, other] = [before === "" ? [] : before.split("\n"), after === "" ? [] : after.split("\n")];
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start += 1;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  const [left, right] = [one.slice(start, one.length - end), other.slice(start, other.length - end)];
  const kept = (lines: readonly string[]): DiffLine[] => lines.map((text) => ({ sign: " ", text }));
  return [...kept(one.slice(0, start)), ...middle(left, right), ...kept(one.slice(one.length - end))];
}

function middle(left: readonly string[], right: readonly string[]): DiffLine[] {
  const [rows, columns] = [left.length, right.length];
  const removed = left.map((text): DiffLine => ({ sign: "-", text }));
  const added = right.map((text): DiffLine => ({ sign: "+", text }));
  if (rows === 0 || columns === 0 || rows * columns > MAX_CELLS) return [...removed, ...added];
  const width = columns + 1;
  const longest = new Uint32Array((rows + 1) * width); // of the common lines of what follows
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      longest[row * width + column] =
        left[row] === right[column]
          ? (longest[(row + 1) * width + column + 1] ?? 0) + 1
          : Math.max(longest[(row + 1) * width + column] ?? 0, longest[row * width + column + 1] ?? 0);
    }
  }
  const made: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < rows || column < columns) {
    if (row < rows && column < columns && left[row] === right[column]) {
      made.push({ sign: " ", text: left[row] ?? "" });
      row += 1;
      column += 1;
    } else if (column >= columns || (row < rows && (longest[(row + 1) * width + column] ?? 0) >= (longest[row * width + column + 1] ?? 0))) {
      made.push(removed[row] as DiffLine);
      row += 1;
    } else {
      made.push(added[column] as DiffLine);
      column += 1;
    }
  }
  return made;
}
