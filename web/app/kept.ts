/** What this browser keeps for a person: drafts, prompts that the server has not accepted yet, and how the page looks.
 * Nothing in it is a secret. Where nothing can be kept, it lasts as long as the page. */

const memory = new Map<string, string>();

function read(name: string): string | null {
  try {
    return localStorage.getItem(`interlock.${name}`);
  } catch {
    return memory.get(name) ?? null;
  }
}

function write(name: string, value: string): void {
  try {
    if (value === "") localStorage.removeItem(`interlock.${name}`);
    else localStorage.setItem(`interlock.${name}`, value);
  } catch {
    memory.set(name, value);
  }
}

export const readDraft = (place: string): string => read(`draft.${place}`) ?? "";
export const writeDraft = (place: string, text: string): void => write(`draft.${place}`, text);

/** A prompt on its way: it stays until the server has accepted or refused it, over reloads. `problem`: why it was not
 * taken; then it waits for its person. */
export interface Outgoing {
  readonly promptId: string;
  readonly taskId: string;
  readonly text: string;
  readonly at: number;
  readonly problem: string;
}

export function readOutbox(): readonly Outgoing[] {
  try {
    const kept: unknown = JSON.parse(read("outbox") ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one?.promptId === "string" && typeof one?.text === "string") : [];
  } catch {
    return [];
  }
}

export const writeOutbox = (kept: readonly Outgoing[]): void => write("outbox", kept.length === 0 ? "" : JSON.stringify(kept));

export type Theme = "auto" | "light" | "dark";

export function readTheme(): Theme {
  const kept = read("theme");
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export function setTheme(theme: Theme): void {
  write("theme", theme === "auto" ? "" : theme);
  document.documentElement.dataset["theme"] = theme;
}

export const hasShortcuts = (): boolean => read("shortcuts") !== "off";
export const setShortcuts = (isOn: boolean): void => write("shortcuts", isOn ? "" : "off");

/** An id that no one else makes. `crypto.randomUUID` does not exist on plain http. */
export function newId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `${prefix}_${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
