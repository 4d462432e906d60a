/** Where a prompt is written. A draft is kept from the first letter until the server has accepted it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { flagsOf } from "../client/state.ts";
import { readDraft, writeDraft } from "./kept.ts";
import { usePage, useStore } from "./use-store.ts";
import { Visible } from "./ui.tsx";

const hasKeyboard = () => matchMedia("(pointer: fine)").matches;

export function Composer({ taskId, isLive }: { readonly taskId: string; readonly isLive: boolean }) {
  const store = usePage();
  const state = useStore((page) => page.task(taskId));
  const [text, setText] = useState(() => readDraft(taskId));
  const element = useRef<HTMLTextAreaElement>(null);
  const keep = (next: string) => {
    setText(next);
    writeDraft(taskId, next);
  };
  useEffect(() => setText(readDraft(taskId)), [taskId]);
  useEffect(() => {
    const onDraft = (event: Event) => {
      const { detail } = event as CustomEvent<{ taskId: string; text: string }>;
      if (detail.taskId === taskId) keep([readDraft(taskId), detail.text].filter(Boolean).join("\n\n"));
    };
    addEventListener("interlock:draft", onDraft);
    return () => removeEventListener("interlock:draft", onDraft);
  }, [taskId]);
  useEffect(() => {
    const box = element.current;
    if (box === null) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, 220)}px`;
  }, [text]);
  if (state === null) return null;
  const flags = flagsOf(state);
  const isDeleted = state.status === "DELETE";
  const send = () => {
    if (text.trim() === "" || isDeleted) return;
    store.send(taskId, text);
    keep("");
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") element.current?.blur();
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
    if (event.ctrlKey || event.metaKey || (hasKeyboard() && !event.shiftKey)) {
      event.preventDefault();
      send();
    }
  };
  const { queue } = state;
  const says = isDeleted ? "This session is archived" : !isLive ? "Prompt, kept until the server is back" : flags.blocks_queued_dispatch ? "Prompt, queued until it is free" : "Prompt";
  return (
    <div class="composer">
      {queue.waiting.length > 0 || !queue.is_open ? (
        <section class="queue" aria-label="Queue">
          <header>
            <span>Queue {queue.waiting.length}{queue.is_open ? "" : `, held: ${queue.gate_reason || "paused"}`}{queue.waits_for ? `, waits for ${queue.waits_for}` : ""}</span>
            <button type="button" class="link-button" disabled={!isLive} onClick={() => void store.act(() => store.shell.api.setGate(taskId, !queue.is_open))}>{queue.is_open ? "pause" : "resume"}</button>
          </header>
          <ol>
            {queue.waiting.map((item) => (
              <li key={item.prompt_id}>
                <span class="queued-text"><Visible text={item.text} /></span>
                <button type="button" class="link-button" disabled={!isLive} aria-label={`remove: ${item.text.slice(0, 60)}`} onClick={() => void store.act(() => store.shell.api.removePrompt(taskId, item.prompt_id))}>remove</button>
              </li>
            ))}
          </ol>
        </section>
      ) : null}
      <div class="compose-row">
        <textarea
          id="prompt"
          ref={element}
          rows={1}
          value={text}
          disabled={isDeleted}
          placeholder={says}
          aria-label={says}
          onInput={(event) => keep(event.currentTarget.value)}
          onKeyDown={onKey}
        />
        <button type="button" class="button primary" disabled={text.trim() === "" || isDeleted} onClick={send}>Send</button>
      </div>
    </div>
  );
}
