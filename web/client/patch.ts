/** Patches over a JSON document: five ops, applied in order, all or none.
 *
 * Laws:
 * 1. The document that is given does not change; parts that no op touches are shared.
 * 2. The first op that fails fails the whole patch.
 * 3. `set`, `append` and `merge_object` make the objects that their path needs, and replace what is no object in the way.
 * 4. No op makes or lengthens an array by index. `delete` of what is not there does nothing.
 * 5. `increment` needs a number, and the sum is finite.
 */

import type { Json, StatePatched } from "./wire.ts";

export type Op = StatePatched["ops"][number];
type Found = Json | undefined;
type Fields = { readonly [name: string]: Json };

const MAX_DEPTH = 100;

/** An op could not be applied, and so the whole patch was not. */
export class PatchError extends Error {}

export function applyPatch(document: Json, ops: readonly Op[]): Json {
  return ops.reduce<Json>((result, op) => applyOp(result, op), document);
}

function applyOp(document: Json, op: Op): Json {
  if (op.path.length > MAX_DEPTH) throw new PatchError(`a path of more than ${MAX_DEPTH} segments`);
  switch (op.op) {
    case "set":
      return edit(document, op.path, () => op.value);
    case "delete":
      return op.path.length === 0 ? null : (remove(document, op.path) ?? null);
    case "append":
      return edit(document, op.path, (found) => append(found, op.value));
    case "merge_object":
      return edit(document, op.path, (found) => merge(found, op.value as Fields));
    case "increment":
      return edit(document, op.path, (found) => sum(found, op.amount));
  }
}

function edit(node: Found, path: readonly (string | number)[], change: (found: Found) => Json): Json {
  const [segment, ...rest] = path;
  if (segment === undefined) return change(node);
  if (typeof segment === "string") {
    const fields = isFields(node) ? node : {};
    return withField(fields, segment, edit(own(fields, segment), rest, change));
  }
  if (!Array.isArray(node)) throw new PatchError(`index ${segment} needs an array`);
  if (!(segment >= 0 && segment < node.length)) throw new PatchError(`index ${segment} is out of range`);
  return node.map((item: Json, place) => (place === segment ? edit(item, rest, change) : item));
}

/** The node without what is at the path; the node itself where nothing is there. */
function remove(node: Found, path: readonly (string | number)[]): Found {
  const [segment, ...rest] = path;
  if (segment === undefined || node === undefined) return node;
  if (typeof segment === "string") {
    const child = isFields(node) ? own(node, segment) : undefined;
    if (!isFields(node) || child === undefined) return node;
    if (rest.length > 0) return withField(node, segment, remove(child, rest) as Json);
    return Object.fromEntries(Object.entries(node).filter(([name]) => name !== segment));
  }
  if (!Array.isArray(node) || !(segment >= 0 && segment < node.length)) return node;
  if (rest.length === 0) return node.filter((_, place) => place !== segment);
  return node.map((item: Json, place) => (place === segment ? (remove(item, rest) as Json) : item));
}

function append(found: Found, value: Json): Json {
  if (found !== undefined && !Array.isArray(found)) throw new PatchError("append needs an array");
  return [...(found ?? []), value];
}

function merge(found: Found, value: Fields): Json {
  if (found !== undefined && !isFields(found)) throw new PatchError("merge_object needs an object");
  return Object.entries(value).reduce((fields, [name, item]) => withField(fields, name, item), found ?? {});
}

function sum(found: Found, amount: number): Json {
  if (typeof found !== "number" || typeof amount !== "number") throw new PatchError("increment needs a number");
  const total = found + amount;
  if (!Number.isFinite(total)) throw new PatchError("the sum is not finite");
  return total;
}

function isFields(node: Found): node is Fields {
  return typeof node === "object" && node !== null && !Array.isArray(node);
}

function own(fields: Fields, name: string): Found {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

/** A copy with that field, also where it is called `__proto__`. Others keep their places. */
function withField(fields: Fields, name: string, value: Json): Fields {
  const entries = Object.entries(fields);
  if (!Object.hasOwn(fields, name)) return Object.fromEntries([...entries, [name, value]]);
  return Object.fromEntries(entries.map((entry) => (entry[0] === name ? [name, value] : entry)));
}
