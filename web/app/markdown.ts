/** Markdown as tokens: enough of it to read an answer by, and no more.
 *
 * Laws:
 * 1. No character is lost: the tokens' texts, one after another, are the text. Marks (`**`, backticks) are tokens, too.
 * 2. What is not understood is text. Nothing is fetched, and a link is only ever http or https.
 * 3. The cost grows with the length of the text.
 */

import { safeLink } from "./hostile.ts";

export type Inline =
  | { readonly kind: "text" | "mark" | "code" | "strong" | "em"; readonly text: string }
  | { readonly kind: "link"; readonly text: string; readonly href: string };

export type Block =
  | { readonly kind: "fence"; readonly open: string; readonly text: string; readonly close: string }
  | { readonly kind: "heading" | "item" | "quote" | "line"; readonly level: number; readonly mark: string; readonly parts: readonly Inline[]; readonly end: string };

const FENCE = /^ {0,3}(`{3,}|~{3,})[^\n]*\n?/;
const LINE = /^(?:(#{1,6}) +|( *(?:[-*+]|\d{1,9}[.)]) +)|(> ?))?/;
const INLINE = /`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*|\[[^\]\n]{1,500}\]\([^()\s]{1,2000}\)|https?:\/\/[^\s<>()"'`\]]+/g;
const MAX_INLINE = 20_000;

export function blocks(text: string): Block[] {
  const found: Block[] = [];
  let rest = text;
  while (rest !== "") {
    const fence = FENCE.exec(rest);
    if (fence !== null) {
      const body = rest.slice(fence[0].length);
      const close = new RegExp(`^ {0,3}${(fence[1] ?? "```")[0]}{${(fence[1] ?? "```").length},}[ \\t]*(?:\\n|$)`, "m").exec(body);
      const inside = close === null ? body : body.slice(0, close.index);
      found.push({ kind: "fence", open: fence[0], text: inside, close: close?.[0] ?? "" });
      rest = close === null ? "" : body.slice(close.index + close[0].length);
      continue;
    }
    const at = rest.indexOf("\n");
    const line = at === -1 ? rest : rest.slice(0, at);
    found.push(lineBlock(line, at === -1 ? "" : "\n"));
    rest = at === -1 ? "" : rest.slice(at + 1);
  }
  return found;
}

function lineBlock(line: string, end: string): Block {
  const match = LINE.exec(line);
  const mark = match?.[0] ?? "";
  const kind = match?.[1] ? "heading" : match?.[2] ? "item" : match?.[3] ? "quote" : "line";
  const level = kind === "heading" ? (match?.[1]?.length ?? 1) : Math.floor((mark.length - mark.trimStart().length) / 2);
  return { kind, level, mark, parts: inline(line.slice(mark.length)), end };
}

export function inline(text: string): Inline[] {
  if (text.length > MAX_INLINE) return [{ kind: "text", text }];
  const found: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) found.push({ kind: "text", text: text.slice(from, match.index) });
    found.push(...token(match[0]));
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ kind: "text", text: text.slice(from) });
  return found;
}

function token(text: string): Inline[] {
  const wrapped = (kind: "code" | "strong" | "em", by: number): Inline[] => [
    { kind: "mark", text: text.slice(0, by) },
    { kind, text: text.slice(by, -by) },
    { kind: "mark", text: text.slice(-by) },
  ];
  if (text.startsWith("`")) return wrapped("code", 1);
  if (text.startsWith("**")) return wrapped("strong", 2);
  if (text.startsWith("*")) return wrapped("em", 1);
  if (!text.startsWith("[")) return link(text, text, "", "");
  const middle = text.indexOf("](");
  return link(text.slice(1, middle), text.slice(middle + 2, -1), "[", text.slice(middle));
}

/** The address of a link stands beside its words, so that they cannot say another one. */
function link(words: string, address: string, before: string, after: string): Inline[] {
  const href = safeLink(address);
  if (href === null) return [{ kind: "text", text: before + words + after }];
  const named: Inline = { kind: "link", text: words, href };
  return [...(before ? [{ kind: "mark", text: before } as const] : []), named, ...(after ? [{ kind: "text", text: after } as const] : [])];
}

/** The text that blocks were made of. */
export function sourceOf(made: readonly Block[]): string {
  return made
    .map((block) => (block.kind === "fence" ? block.open + block.text + block.close : block.mark + block.parts.map((part) => part.text).join("") + block.end))
    .join("");
}
