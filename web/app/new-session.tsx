/** A new session: which agent, where, and what it is to do. What was typed is kept until the server has accepted it. */

import { useEffect, useState } from "preact/hooks";
import { clientError } from "../client/errors.ts";
import type { AgentDriver } from "../client/resources.ts";
import { newId, readDraft, writeDraft } from "./kept.ts";
import { navigate, sessionPath } from "./router.ts";
import { Field, Link } from "./ui.tsx";
import { usePage, useStore } from "./use-store.ts";

interface Form {
  readonly agent: string;
  readonly driver: string;
  readonly program: string;
  readonly folder: string;
  readonly title: string;
  readonly prompt: string;
  readonly key: string;
}

const EMPTY: Form = { agent: "", driver: "", program: "", folder: "", title: "", prompt: "", key: "" };

export function NewSession() {
  const store = usePage();
  const lines = useStore((page) => page.lines);
  const canAct = useStore((page) => page.canAct());
  const isLive = useStore((page) => page.connection.kind === "live");
  const [form, setForm] = useState<Form>(readForm);
  const [drivers, setDrivers] = useState<readonly AgentDriver[]>([]);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    store.shell.api.agents().then((page) => setDrivers(page.items), () => undefined);
  }, [store, isLive]);
  const recent = [...lines].sort((one, other) => ((one.last_at ?? "") < (other.last_at ?? "") ? 1 : -1));
  const folders = [...new Set(recent.map((line) => line.folder).filter(Boolean))];
  const agents = [...new Set(recent.map((line) => line.agent).filter(Boolean))];
  const last = recent[0];
  const driver = form.driver || last?.driver || drivers[0]?.name || "";
  const agent = form.agent || last?.agent || "";
  const folder = form.folder || folders[0] || "";
  const set = (change: Partial<Form>) => {
    const next = { ...form, ...change };
    setForm(next);
    writeDraft("new", JSON.stringify(next));
  };
  const start = async () => {
    if (agent === "" || driver === "" || isBusy) return;
    const key = form.key || newId("ses");
    set({ key }); // the same session, however often this is pressed
    setBusy(true);
    try {
      const argv = form.program.split(/\s+/).filter(Boolean);
      const { title, prompt } = form;
      const opened = await store.shell.api.openTask({ agent, driver, argv, title, ...(folder ? { cwd: folder } : {}), ...(prompt.trim() ? { prompt } : {}) }, key);
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
        <Field label="Agent" hint="claude, codex, gemini, or any name of yours">
          <input list="agents" value={form.agent} placeholder={agent || "claude"} onInput={(event) => set({ agent: event.currentTarget.value })} />
        </Field>
        <datalist id="agents">{agents.map((name) => <option key={name} value={name} />)}</datalist>
        <Field label="How it is run">
          <select value={driver} onChange={(event) => set({ driver: event.currentTarget.value })}>
            {[...new Set([driver, ...drivers.map((one) => one.name)])].filter(Boolean).map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </Field>
        <Field label="Program" hint="blank: the agent's own command">
          <input value={form.program} autocapitalize="off" spellcheck={false} onInput={(event) => set({ program: event.currentTarget.value })} />
        </Field>
        <Field label="Folder">
          <input list="folders" value={form.folder} placeholder={folder || "/home/you/project"} autocapitalize="off" spellcheck={false} onInput={(event) => set({ folder: event.currentTarget.value })} />
        </Field>
        <datalist id="folders">{folders.map((name) => <option key={name} value={name} />)}</datalist>
        <Field label="Title"><input value={form.title} maxLength={200} onInput={(event) => set({ title: event.currentTarget.value })} /></Field>
        <Field label="Prompt"><textarea rows={5} value={form.prompt} onInput={(event) => set({ prompt: event.currentTarget.value })} /></Field>
        {problem ? <p class="warn" role="alert">{problem}</p> : null}
        <div class="row end">
          <button type="submit" class="button primary" disabled={!isLive || isBusy || agent === "" || driver === ""}>{isBusy ? "Starting" : "Start"}</button>
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
