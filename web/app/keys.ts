/** Keys, as in `interlock top`: they act where no text is being typed, and can be switched off. */

import { hasShortcuts } from "./kept.ts";

export interface QuestionKeys {
  readonly allow: () => void;
  readonly deny: () => void;
  readonly choose: (number: number) => void;
}

let questionKeys: QuestionKeys | null = null;

/** The card that keys answer. Gives what takes it away again. */
export function setQuestionKeys(keys: QuestionKeys): () => void {
  questionKeys = keys;
  return () => {
    if (questionKeys === keys) questionKeys = null;
  };
}

export type Keys = Readonly<Record<string, () => void>>;

/** Listen until the function that it gives is called. */
export function listenToKeys(keys: () => Keys): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]") !== null || !hasShortcuts()) return;
    const act = keyAct(event.key) ?? keys()[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

function keyAct(key: string): (() => void) | undefined {
  if (questionKeys === null) return undefined;
  const { allow, deny, choose } = questionKeys;
  if (key === "a") return allow;
  if (key === "d") return deny;
  return /^[1-9]$/.test(key) ? () => choose(Number(key)) : undefined;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

export const HELP: readonly (readonly [string, string])[] = [
  ["j k", "the session below, above"],
  ["n", "the next session that needs you"],
  ["/", "filter sessions"],
  ["a d", "allow this once, deny: the question on the screen"],
  ["1-9", "one of the offered answers"],
  ["s", "write a prompt"],
  ["c", "interrupt the turn (asks)"],
  ["x", "stop the agent (asks)"],
  ["t", "talk"],
  ["l", "terminal"],
  ["w", "why it has this status"],
  ["u", "usage"],
  ["e", "show or fold ended sessions"],
  ["N", "a new session"],
  ["r", "look again, now"],
  ["T", "light or dark"],
  ["esc", "back, clear"],
  ["?", "this page"],
];
