/** How a component reads the store: by a selector, and it renders again when what that gives has changed. */

import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import type { PageStore } from "./store.ts";

export const StoreContext = createContext<PageStore | null>(null);

export function usePage(): PageStore {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("there is no store here");
  return store;
}

export function useStore<T>(select: (store: PageStore) => T, isEqual: (one: T, other: T) => boolean = Object.is): T {
  const store = usePage();
  const [, render] = useReducer((count: number) => count + 1, 0);
  const selected = select(store);
  const latest = useRef({ select, selected });
  latest.current = { select, selected };
  useLayoutEffect(() => {
    const look = () => {
      if (!isEqual(latest.current.select(store), latest.current.selected)) render(undefined);
    };
    look(); // what changed between the render and this
    return store.subscribe(look);
  }, [store]);
  return selected;
}

/** The server's time, once a second while the page is visible and what is shown is live: a time that is not live stands
 * still. */
export function useNow(isLive: boolean): number {
  const store = usePage();
  const [now, setNow] = useState(() => store.now());
  useEffect(() => {
    if (!isLive) return undefined;
    setNow(store.now());
    const timer = setInterval(() => document.visibilityState === "visible" && setNow(store.now()), 1000);
    return () => clearInterval(timer);
  }, [store, isLive]);
  return now;
}
