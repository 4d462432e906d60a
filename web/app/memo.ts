/** A component that renders again only when one of its properties is another. */

import { Component, type FunctionComponent, h } from "preact";

export function memo<P extends object>(render: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const names = Object.keys(next) as (keyof P)[];
      return names.length !== Object.keys(this.props).length || names.some((name) => next[name] !== (this.props as P)[name]);
    }
    override render(props: P) {
      return h(render as FunctionComponent<object>, props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
