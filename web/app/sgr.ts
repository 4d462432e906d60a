/** Colours of a terminal as classes (the 16 that a theme names) and styles (the others). */

export interface Look {
  readonly classes: string;
  readonly style: { color?: string; backgroundColor?: string };
}

export function styleOf(sgr: string): Look {
  const numbers = sgr.split(";").map(Number);
  const classes: string[] = [];
  const style: { color?: string; backgroundColor?: string } = {};
  for (let at = 0; at < numbers.length; at += 1) {
    const one = numbers[at] ?? 0;
    if (one === 38 || one === 48) {
      const isIndex = numbers[at + 1] === 5;
      const colour = isIndex ? indexed(numbers[at + 2] ?? 0) : rgb(numbers.slice(at + 2, at + 5));
      if (one === 38) style.color = colour;
      else style.backgroundColor = colour;
      at += isIndex ? 2 : 4;
    } else if (one === 1) classes.push("t-bold");
    else if (one === 2) classes.push("t-dim");
    else if (one === 3) classes.push("t-italic");
    else if (one === 4) classes.push("t-under");
    else if (one === 7) classes.push("t-reverse");
    else if (one >= 30 && one <= 37) classes.push(`t-fg${one - 30}`);
    else if (one >= 40 && one <= 47) classes.push(`t-bg${one - 40}`);
    else if (one >= 90 && one <= 97) classes.push(`t-fg${one - 82}`);
    else if (one >= 100 && one <= 107) classes.push(`t-bg${one - 92}`);
  }
  return { classes: classes.join(" "), style };
}

function indexed(index: number): string {
  if (index < 16) return `var(--t${index})`;
  if (index >= 232) return rgb([8, 8, 8].map((base) => base + (index - 232) * 10));
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  const cube = index - 16;
  return rgb([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

function rgb(parts: readonly number[]): string {
  return `rgb(${parts.map((part) => Math.min(255, Math.max(0, part || 0))).join(" ")})`;
}
