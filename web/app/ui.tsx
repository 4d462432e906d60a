/** Small parts that every screen is made of. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { TaskSummary } from "../client/wire.ts";
import { pieces } from "./hostile.ts";
import { onLink } from "./router.ts";
import { clockTime, duration, glyphOf } from "./words.ts";

/** The sign of a session. It pulses only where somebody works and that is known now. */
export function Glyph({ line, isLive }: { readonly line: TaskSummary; readonly isLive: boolean }) {
  const { sign, tone } = glyphOf(line);
  const pulse = isLive && tone === "working" ? " pulse" : "";
  return (
    <span class={`glyph tone-${tone}${isLive ? "" : " stale"}${pulse}`} aria-hidden="true">
      {!isLive && sign === "●" ? "○" : sign}
    </span>
  );
}

/** Text of an agent, with what cannot be seen shown by its number. */
export function Visible({ text }: { readonly text: string }) {
  return (
    <>
      {pieces(text).map((piece, at) =>
        piece.mark === "" ? piece.text : <mark key={at} class="invisible" title="a character that cannot be seen">{piece.mark}</mark>,
      )}
    </>
  );
}

/** How long ago something began. */
export function Age({ since, now }: { readonly since: string | null | undefined; readonly now: number }) {
  if (!since) return null;
  const seconds = (now - Date.parse(since)) / 1000;
  return <time class="age" dateTime={since}>{duration(seconds)}</time>;
}

/** How fresh a claim is: live, as of a time, or unknown. */
export function Freshness({ isLive, asOf }: { readonly isLive: boolean; readonly asOf: number | null }) {
  if (isLive) return <span class="fresh live"><i class="dot" aria-hidden="true" />live</span>;
  if (asOf === null) return <span class="fresh unknown"><i class="dot" aria-hidden="true" />unknown</span>;
  return <span class="fresh past"><i class="dot" aria-hidden="true" />as of {clockTime(asOf)}</span>;
}

export function Link(props: { readonly href: string; readonly class?: string; readonly current?: boolean; readonly label?: string; readonly children: ComponentChildren }) {
  const { href, current, label, children } = props;
  return (
    <a href={href} class={props.class} onClick={onLink} aria-current={current ? "page" : undefined} aria-label={label}>
      {children}
    </a>
  );
}

export function Key({ children }: { readonly children: ComponentChildren }) {
  return <kbd aria-hidden="true">{children}</kbd>;
}

/** A dialog above the page. The first thing in it has the focus, Escape leaves it. */
export function Dialog(props: { readonly title: string; readonly onClose: () => void; readonly children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} class="dialog" aria-labelledby="dialog-title" onClose={props.onClose}>
      <h2 id="dialog-title">{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** Asks before it does something. Cancel has the first focus. */
export function Confirm(props: { readonly title: string; readonly text: string; readonly does: string; readonly onYes: () => void; readonly onClose: () => void }) {
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <p>{props.text}</p>
      <div class="row end">
        <button type="button" class="button" autofocus onClick={props.onClose}>Cancel</button>
        <button type="button" class="button danger" onClick={() => { props.onYes(); props.onClose(); }}>{props.does}</button>
      </div>
    </Dialog>
  );
}

export function Field(props: { readonly label: string; readonly hint?: string; readonly children: JSX.Element }) {
  return (
    <label class="field">
      <span class="field-label">{props.label}</span>
      {props.children}
      {props.hint ? <span class="hint">{props.hint}</span> : null}
    </label>
  );
}
