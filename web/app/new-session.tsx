/** A new session: which agent, where, and what it is to do. What was typed is kept until the server has accepted it. */

import { useEffect, useState } from "preact/hooks";
import { clientError } from "../client/errors.ts";
import type { ConfiguredAgent } from "../client/resources.ts";
import { newId, readDraft, writeDraft } from "./kept.ts";
import { navigate, sessionPath } from "./router.ts";
import { Field, Link } from "./ui.tsx";
import { usePage, useStore } from "./use-store.ts";

interface Form {
  readonly agent: string;
  readonly folder: string;
  readonly title: string;
  readonly prompt: string;
  readonly key: string;
}

const EMPTY: Form = { agent: "", folder: "", title: "", prompt: "", key: "" };

export function NewSession() {
  const store = usePage();
  const lines = useStore((page) => page.lines);
  const canAct = useStore((page) => page.canAct());
  const isLive = useStore((page) => page.connection.kind === "live");
  const [form, setForm] = useState<Form>(readForm);
  const [known, setKnown] = useState<readonly ConfiguredAgent[] | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    store.shell.api.agents().then((page) => setKnown(page.configured), (thrown: unknown) => setProblem(clientError(thrown).message));
  }, [store, isLive]);
  const recent = [...lines].sort((one, other) => ((one.last_at ?? "") < (other.last_at ?? "") ? 1 : -1));
  const folders = [...new Set(recent.map((line) => line.folder).filter(Boolean))];
  const installed = (known ?? []).filter((one) => one.is_installed);
  const last = recent.find((line) => installed.some((one) => one.name === line.agent));
  const agent = installed.some((one) => one.name === form.agent) ? form.agent : (last?.agent ?? installed[0]?.name ?? "");
  const folder = form.folder || folders[0] || "";
  const set = (change: Partial<Form>) => {
    const next = { ...form, ...change };
    setForm(next);
    writeDraft("new", JSON.stringify(next));
  };
  const start = async () => {
    if (agent === "" || folder === "" || isBusy) return;
    const key = form.key || newId("ses");
    set({ key }); // the same session, however often this is pressed
    setBusy(true);
    try {
      const { title, prompt } = form;
      const opened = await store.shell.api.openTask({ agent, cwd: folder, title, ...(prompt.trim() ? { prompt } : {}) }, key);
      writeDraft("new", "");
      navigate(sessionPath(opened.task_id));
    } catch (thrown) {
      const error = clientError(thrown);
      setProblem("remedy" in error && error.remedy ? `${error.message}: ${error.remedy}` : error.message);
      if ("status" in error && error.status < 500) setForm((kept) => ({ ...kept, key: "" }));
    } finally {
      setBusy(false);
    }
  };
  if (!canAct) return <main class="page" id="main"><h1>New session</h1><p class="empty">This login only looks. An operator can start sessions.</p></main>;
  return (
    <main class="page" id="main">
      <header class="page-head"><Link href="/" class="back button ghost" label="Back to the board">‹</Link><h1>New session</h1></header>
      <form class="form" onSubmit={(event) => { event.preventDefault(); void start(); }} onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && void start()}>
        <div class="field">
          <span class="field-label" id="agent-name">Agent</span>
          {known === null ? <div class="skeleton"><i /></div> : installed.length === 0 ? (
            <p class="hint">No agent of this server's configuration is installed. In a terminal, <code>interlock doctor</code> says what is missing.</p>
          ) : (
            <div class="choices" role="radiogroup" aria-labelledby="agent-name">
              {installed.map((one) => <button key={one.name} type="button" role="radio" aria-checked={one.name === agent} onClick={() => set({ agent: one.name })}>{one.name}{one.model ? <span class="hint"> {one.model}</span> : null}</button>)}
            </div>
          )}
        </div>
        <Field label="Folder">
          <input list="folders" value={form.folder} placeholder={folder || "/home/you/project"} autocapitalize="off" spellcheck={false} onInput={(event) => set({ folder: event.currentTarget.value })} />
        </Field>
        <datalist id="folders">{folders.map((name) => <option key={name} value={name} />)}</datalist>
        <Field label="Title"><input value={form.title} maxLength={200} onInput={(event) => set({ title: event.currentTarget.value })} /></Field>
        <Field label="Prompt"><textarea rows={5} value={form.prompt} onInput={(event) => set({ prompt: event.currentTarget.value })} /></Field>
        {problem ? <p class="warn" role="alert">{problem}</p> : null}
        <div class="row end">
          <button type="submit" class="button primary" disabled={!isLive || isBusy || agent === "" || folder === ""}>{isBusy ? "Starting" : "Start"}</button>
        </div>
      </form>
    </main>
  );
}

function readForm(): Form {
  try {
    return { ...EMPTY, ...(JSON.parse(readDraft("new") || "{}") as Partial<Form>) };
  } catch {
    return EMPTY;
  }
}
