/** A question to a person, with all that it would run.
 *
 * Laws:
 * 1. The arguments are whole and wrapped, and what cannot be seen is marked. Nothing is cut by its length.
 * 2. What was never on the screen is counted: then Allow says so, and needs a second press.
 * 3. Keys act on a card that was shown whole for a moment, and on no other. Allow never has the first focus, and Enter
 *    alone never allows.
 * 4. A card stays where it is: another question does not take its place, and one that is over says how it ended.
 * 5. Nothing can be answered on a connection that has not said that the question is open.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Decision } from "../client/api.ts";
import type { Approval, DialogOption, Json } from "../client/wire.ts";
import { diffLines } from "./diff.ts";
import { setQuestionKeys } from "./keys.ts";
import { readDraft, writeDraft } from "./kept.ts";
import type { DecisionView } from "./store.ts";
import { Key, Visible } from "./ui.tsx";
import { useNow, usePage, useStore } from "./use-store.ts";
import { clockTime, duration } from "./words.ts";

const READ_MILLISECONDS = 400;
const PIECE_CHARACTERS = 400;
const PIECE_LINES = 8;

interface Section {
  readonly label: string;
  readonly text: string;
  readonly tone: "prose" | "text" | "command" | "removed" | "added";
}

/** What is to be allowed is known by its arguments; what a question in words was asked with says the same again. */
const ALLOWED: ReadonlySet<string> = new Set(["approval", "plan"]);

export function QuestionCard({ approval, isOver, isLive }: { readonly approval: Approval; readonly isOver: boolean; readonly isLive: boolean }) {
  const store = usePage();
  const decision = useStore((page) => page.decision(approval));
  const past = useStore((page) => page.past(approval.approval_id));
  const canAct = useStore((page) => page.canAct());
  const now = useNow(isLive && !isOver);
  const [isRaw, setRaw] = useState(false);
  const [sure, setSure] = useState({ of: "", at: 0 });
  const isSure = sure.of !== "";
  const [words, setWords] = useState(() => readDraft(`answer.${approval.approval_id}`));
  const sections = useMemo(() => {
    const asked: Section = { label: "", text: approval.question, tone: "prose" };
    return [asked, ...(isRaw ? rawSections(approval.arguments) : ALLOWED.has(approval.attention) ? sectionsOf(approval) : [])];
  }, [approval, isRaw]);
  const { unread, container } = useUnread(sections);
  const isOpen = approval.state === "open" && !isOver;
  const isBusy = decision !== undefined && decision.stage !== "unknown" && decision.stage !== "refused";
  const canAnswer = canAct && isOpen && isLive && approval.is_answerable && !isBusy;
  const answers = answersOf(approval);
  const readAt = useRef<number | null>(null);
  readAt.current = unread === 0 ? (readAt.current ?? performance.now()) : null;

  const answer = (given: Decision) => {
    if (!canAnswer) return;
    const pressed = JSON.stringify([given, approval.arguments]);
    if (given.is_allowed && unread > 0 && (sure.of !== pressed || performance.now() - sure.at < 2 * READ_MILLISECONDS)) {
      if (sure.of !== pressed) setSure({ of: pressed, at: performance.now() });
      return;
    }
    const text = words.trim();
    void store.decide(approval, given.is_allowed || text === "" ? given : { ...given, text });
  };
  const reply = () => {
    if (canAnswer && words.trim() !== "") void store.decide(approval, { is_allowed: true, text: words.trim() });
  };
  const keep = (text: string) => {
    setWords(text);
    writeDraft(`answer.${approval.approval_id}`, text);
  };
  useEffect(() => {
    if (decision?.stage === "decided") writeDraft(`answer.${approval.approval_id}`, "");
  }, [decision?.stage, approval.approval_id]);
  useEffect(() =>
    setQuestionKeys({
      allow: () => answers.allow !== null && whenRead(() => answer(answers.allow as Decision)),
      deny: () => answers.deny !== null && whenRead(() => answer(answers.deny as Decision)),
      choose: (number) => {
        const chosen = answers.options[number - 1];
        if (chosen !== undefined) whenRead(() => answer(chosen.decision));
      },
    }),
  );
  const whenRead = (then: () => void) => {
    if (readAt.current !== null && performance.now() - readAt.current >= READ_MILLISECONDS) then();
    else store.say("Read all of the question first: keys answer what was on the screen.");
  };

  const asked = (now - Date.parse(approval.asked_at)) / 1000;
  const left = approval.deadline_at === null ? null : (Date.parse(approval.deadline_at) - now) / 1000;
  return (
    <article class={`question${isOpen ? "" : " over"}`} aria-labelledby="question-name" data-approval={approval.approval_id}>
      <header class="question-head">
        <h2 id="question-name"><span class="tone-needs" aria-hidden="true">!</span> {isOpen ? "Asks you" : "Asked"}{approval.tool ? <>: <Visible text={approval.tool} /></> : null}</h2>
        <span class="hint">
          {isOpen && isLive ? `asked ${duration(asked)} ago` : `asked at ${clockTime(approval.asked_at)}`}
          {isOpen && left !== null ? `, ${duration(left)} left` : ""}
        </span>
      </header>
      <div class="question-body" ref={container} tabIndex={0} role="group" aria-label="What it asks">
        {approval.problem ? <p class="warn">Asked again: the last decision did not reach the agent: {approval.problem}</p> : null}
        <Arguments sections={sections} />
        {approval.arguments !== null && typeof approval.arguments === "object" ? (
          <button type="button" class="link-button" onClick={() => setRaw(!isRaw)}>{isRaw ? "as a person reads it" : "as it was sent"}</button>
        ) : null}
      </div>
      {isOpen || decision?.stage === "sending" ? null : <Outcome approval={past ?? approval} decision={decision} />}
      {decision === undefined ? null : <DecisionLine decision={decision} isOpen={isOpen} />}
      {isOpen && !isBusy ? (
        <footer class="question-foot">
          {unread > 0 ? <p class="unread" role="status">{unread === 1 ? "1 line was" : `${unread} lines were`} not on the screen yet</p> : null}
          {!isLive ? <p class="unread">Not verified on this connection: it can be answered when the server says that it is still open.</p> : null}
          {isLive && !approval.is_answerable ? <p class="unread">No server runs this session, so nobody can take an answer.</p> : null}
          {canAct ? (
            <>
              {answers.takesWords ? (
                <div class="reply">
                  <input type="text" value={words} aria-label={answers.isYesNo ? "Why not (sent with Deny)" : "Your answer"} placeholder={answers.isYesNo ? "Why not (sent with Deny)" : "Your answer"}
                    onInput={(event) => keep(event.currentTarget.value)}
                    onKeyDown={(event) => event.key === "Enter" && !event.isComposing && event.keyCode !== 229 && !answers.isYesNo && reply()} />
                  {answers.isYesNo ? null : <button type="button" class="button" disabled={!canAnswer || words.trim() === ""} onClick={reply}>Answer</button>}
                </div>
              ) : null}
              <div class="answers">
                {answers.deny === null ? null : <button type="button" class="button deny" disabled={!canAnswer} onClick={() => answer(answers.deny as Decision)}><Key>d</Key> Deny</button>}
                {answers.options.map(({ option, decision: given }, at) => (
                  <button key={option.id || option.label} type="button" class={`button ${given.is_allowed ? "allow" : "deny"}`} disabled={!canAnswer} onKeyDown={given.is_allowed ? withoutEnter : undefined} onClick={() => answer(given)}>
                    {at < 9 ? <Key>{at + 1}</Key> : null} <Visible text={option.label} />
                  </button>
                ))}
                {answers.allow !== null && answers.options.length === 0 ? (
                  <button type="button" class="button allow" disabled={!canAnswer} onKeyDown={withoutEnter} onClick={() => answer(answers.allow as Decision)}>
                    <Key>a</Key> {unread > 0 ? `Allow without reading ${unread} line${unread === 1 ? "" : "s"}` : "Allow"}
                  </button>
                ) : null}
              </div>
              {isSure && unread > 0 ? <p class="warn" role="alert">Press again to allow it without having read all of it.</p> : null}
            </>
          ) : null}
        </footer>
      ) : null}
    </article>
  );
}

function Outcome({ approval, decision }: { readonly approval: Approval; readonly decision: DecisionView | undefined }) {
  const who = approval.decided_by ? ` by ${approval.decided_by}` : "";
  const how = approval.outcome || (approval.state === "decided" ? "answered; the agent has yet to go on" : "over; how it ended was not heard");
  const isOthers = decision?.stage === "over";
  return <p class="outcome" role="status">{isOthers ? "Somebody was first. " : ""}This question is {approval.state === "decided" ? "decided" : "over"}: <strong><Visible text={how} /></strong>{who}</p>;
}

function DecisionLine({ decision, isOpen }: { readonly decision: DecisionView; readonly isOpen: boolean }) {
  const what = decision.decision.option || (decision.decision.is_allowed ? (decision.decision.text ? "your answer" : "allow") : "deny");
  const steps = ["sending", "decided", "closed"];
  const at = decision.stage === "sending" ? 0 : decision.stage === "decided" ? (isOpen ? 1 : 2) : -1;
  if (at === -1) {
    const said = { unknown: "It is not known whether that arrived", refused: "The server refused it", over: "It was not taken" }[decision.stage as "unknown" | "refused" | "over"];
    return <p class="warn" role="alert">{said}: {decision.problem}</p>;
  }
  return (
    <p class="steps" role="status">
      <Visible text={what} />: {steps.map((step, number) => <span key={step} class={number <= at ? "done" : "todo"}>{step}</span>)}
    </p>
  );
}

/** The arguments, in pieces whose place on the screen is watched. */
function Arguments({ sections }: { readonly sections: readonly Section[] }) {
  return (
    <div class="arguments">
      {sections.map((section, at) => (
        <div key={at} class={`argument ${section.tone}`}>
          {section.label ? <div class="argument-name"><Visible text={section.label} /></div> : null}
          <pre>
            {split(section.text).map((piece, number) => (
              <span key={number} class="piece" data-lines={piece.lines}><Visible text={piece.text} /></span>
            ))}
          </pre>
        </div>
      ))}
    </div>
  );
}

/** How many lines have never been on the screen. */
function useUnread(sections: readonly Section[]) {
  const container = useRef<HTMLDivElement>(null);
  const [unread, setUnread] = useState(() => sections.reduce((sum, section) => sum + section.text.split("\n").length, 0));
  useEffect(() => {
    const left = new Set(container.current?.querySelectorAll<HTMLElement>(".piece"));
    const count = () => setUnread([...left].reduce((sum, piece) => sum + Number(piece.dataset["lines"]), 0));
    const observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, intersectionRatio, target } of entries) {
        if (!isIntersecting || intersectionRatio < 0.9) continue;
        left.delete(target as HTMLElement);
        observer.unobserve(target);
      }
      count();
    }, { threshold: [0.9] });
    for (const piece of left) observer.observe(piece);
    count();
    return () => observer.disconnect();
  }, [sections]);
  return { unread, container };
}

function split(text: string): { readonly text: string; readonly lines: number }[] {
  const made: { text: string; lines: number }[] = [];
  let [piece, lines] = ["", 0];
  const flush = () => {
    if (piece !== "") made.push({ text: piece, lines: Math.max(1, lines) });
    [piece, lines] = ["", 0];
  };
  for (const line of text.split(/(?<=\n)/)) {
    if (lines >= PIECE_LINES || piece.length + line.length > PIECE_CHARACTERS) flush();
    for (let from = 0; from < line.length; ) {
      let to = Math.min(line.length, from + PIECE_CHARACTERS);
      if (to < line.length && /[\ud800-\udbff]/.test(line.charAt(to - 1))) to -= 1; // no character is cut in two
      if (piece.length + to - from > PIECE_CHARACTERS) flush();
      piece += line.slice(from, to);
      from = to;
    }
    lines += 1;
  }
  flush();
  return made;
}

/** Enter is pressed by the way: it never allows. A space does, on a button that was gone to. */
function withoutEnter(event: KeyboardEvent): void {
  if (event.key === "Enter") event.preventDefault();
}

interface Fields {
  readonly [name: string]: Json;
}

/** The arguments as a person reads them: a command as text, an edit as a diff, all else by name. */
function sectionsOf(approval: Approval): Section[] {
  const given = approval.arguments;
  if (given === null) return [];
  if (typeof given !== "object" || Array.isArray(given)) return rawSections(given);
  const fields = given as Fields;
  const { command, old_string: before, new_string: after, ...rest } = fields;
  const made: Section[] = [];
  if (typeof command === "string") made.push({ label: "", text: command, tone: "command" });
  else if (command !== undefined) made.push(section("command", command));
  for (const [name, value] of Object.entries(rest)) made.push(section(name, value));
  if (typeof before === "string" && typeof after === "string") made.push(...diffSections(before, after));
  else {
    if (before !== undefined) made.push(section("old_string", before));
    if (after !== undefined) made.push(section("new_string", after));
  }
  return made;
}

function diffSections(before: string, after: string): Section[] {
  const made: Section[] = [];
  for (const { sign, text } of diffLines(before, after)) {
    const tone = sign === "-" ? "removed" : sign === "+" ? "added" : "text";
    const last = made.at(-1);
    const line = `${sign} ${text}`;
    if (last !== undefined && last.tone === tone) made[made.length - 1] = { ...last, text: `${last.text}\n${line}` };
    else made.push({ label: made.length === 0 ? "as the agent proposes" : "", text: line, tone });
  }
  return made;
}

function section(label: string, value: Json): Section {
  return { label, text: typeof value === "string" ? value : JSON.stringify(value, null, 2), tone: "text" };
}

function rawSections(given: Json): Section[] {
  return [{ label: "exactly as it was sent", text: JSON.stringify(given, null, 2), tone: "text" }];
}

interface Answers {
  readonly allow: Decision | null;
  readonly deny: Decision | null;
  readonly options: readonly { readonly option: DialogOption; readonly decision: Decision }[];
  readonly isYesNo: boolean;
  readonly takesWords: boolean;
}

/** What may be answered. Allow is one that allows this once and no more; words are no answer to a yes-or-no question. */
function answersOf(approval: Approval): Answers {
  const { options, attention } = approval;
  const isYesNo = options.some((one) => one.kind.startsWith("allow") || one.kind.startsWith("reject"));
  const isPlain = ALLOWED.has(attention);
  const spelled = (option: DialogOption) => (options.filter((one) => one.label === option.label).length === 1 ? option.label : option.id || option.label);
  const decisionOf = (option: DialogOption): Decision => ({ is_allowed: !option.kind.startsWith("reject"), option: spelled(option) });
  const once = options.filter((one) => one.kind === "allow_once");
  const reject = options.find((one) => one.kind === "reject_once");
  const allow = once.length === 1 ? decisionOf(once[0] as DialogOption) : options.length === 0 && isPlain ? { is_allowed: true } : null;
  const deny = reject === undefined ? (isYesNo || isPlain ? { is_allowed: false } : null) : decisionOf(reject);
  const listed = options.filter((one) => one !== reject || deny === null);
  return {
    allow,
    deny,
    options: listed.map((option) => ({ option, decision: decisionOf(option) })),
    isYesNo: isYesNo || isPlain,
    takesWords: true,
  };
}
