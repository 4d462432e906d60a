/** Markdown of an agent as elements. Every character of it is in the page; marks are drawn small. */

import { memo } from "./memo.ts";
import { type Block, blocks, type Inline } from "./markdown.ts";

export const Markdown = memo(function Markdown({ text }: { readonly text: string }) {
  return <div class="md">{blocks(text).map((block, at) => <BlockView key={at} block={block} />)}</div>;
});

function BlockView({ block }: { readonly block: Block }) {
  if (block.kind === "fence") {
    return (
      <div class="fence">
        <span class="mk">{block.open}</span>
        <pre tabIndex={0} aria-label="code">{block.text}</pre>
        <span class="mk">{block.close}</span>
      </div>
    );
  }
  const parts = block.parts.map((part, at) => <Part key={at} part={part} />);
  const mark = block.mark ? <span class={block.kind === "item" ? "bullet" : "mk"}>{block.mark}</span> : null;
  const isEmpty = block.mark === "" && block.parts.length === 0;
  return <div class={isEmpty ? "md-gap" : `md-${block.kind} level-${Math.min(block.level, 6)}`}>{mark}{parts}{block.end}</div>;
}

function Part({ part }: { readonly part: Inline }) {
  switch (part.kind) {
    case "code":
      return <code>{part.text}</code>;
    case "strong":
      return <strong>{part.text}</strong>;
    case "em":
      return <em>{part.text}</em>;
    case "mark":
      return <span class="mk">{part.text}</span>;
    case "link":
      return <a href={part.href} rel="noreferrer noopener" target="_blank">{part.text}</a>;
    case "text":
      return <>{part.text}</>;
  }
}
