/** Laws of text: code points, growing text, hostile text, Markdown, differences, patches. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { blocks, sourceOf } from "../app/markdown.ts";
import { pieces, safeLink, visible } from "../app/hostile.ts";
import { diffLines } from "../app/diff.ts";
import { styleOf } from "../app/sgr.ts";
import * as codepoints from "../client/codepoints.ts";
import { GrowingText } from "../client/growing-text.ts";
import { applyPatch, PatchError } from "../client/patch.ts";
import { wireTypes } from "../tools/wire-types.mjs";

const ODD = ["a", "é", "漢", "👍", "👩‍👩‍👧", "\u202e", "\ud800", "`", "**", "*", "[x](", "https://e.org", ")", "\n", "```", "# ", "- ", "> ", " ", "1. ", "~~~"];

/** The same numbers each time: a test that fails fails again. */
function* oddTexts(count: number): Generator<string> {
  let seed = 42;
  const next = (limit: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * limit);
  };
  for (let made = 0; made < count; made += 1) yield Array.from({ length: next(30) }, () => ODD[next(ODD.length)]).join("");
}

test("no text becomes HTML, and no address leads elsewhere", () => {
  for (const folder of ["../app/", "../client/"]) {
    for (const name of readdirSync(new URL(folder, import.meta.url))) {
      const text = readFileSync(new URL(folder + name, import.meta.url), "utf8");
      expect(text.match(/innerHTML|outerHTML|insertAdjacent|document\.write|dangerously|eval\(|new Function|srcdoc/g), name).toBeNull();
      expect(text.match(/["'`]https?:\/\/(?!www\.w3\.org|127\.0\.0\.1)/g), name).toBeNull();
    }
  }
});

test("the types are made from the schema", () => {
  expect(readFileSync(new URL("../client/wire.ts", import.meta.url), "utf8")).toBe(wireTypes());
});

describe("code points", () => {
  test("are what Array.from counts", () => {
    for (const text of oddTexts(500)) {
      const points = Array.from(text);
      expect(codepoints.length(text)).toBe(points.length);
      for (let at = 0; at <= points.length; at += 1) {
        expect(codepoints.before(text, at)).toBe(points.slice(0, at).join(""));
        expect(codepoints.slice(text, at)).toBe(points.slice(at).join(""));
      }
    }
  });
  test("text grows by them, and each value keeps what it has", () => {
    const one = new GrowingText("👍");
    const two = one.put(1, "漢");
    const other = one.put(1, "x");
    expect([one.text, two?.text, other?.text]).toEqual(["👍", "👍漢", "👍x"]);
    expect(two?.put(1, "y")?.text).toBe("👍y");
    expect([two?.length, one.put(2, "hole")]).toEqual([2, null]);
  });
});

describe("text of an agent", () => {
  test("Markdown loses no character", () => {
    for (const text of oddTexts(3_000)) expect(sourceOf(blocks(text))).toBe(text);
  });
  test("a line of ten million characters is read", () => {
    const text = "[".repeat(5_000_000) + "`".repeat(5_000_000);
    expect(sourceOf(blocks(text)).length).toBe(text.length);
  });
  test("links lead to http and https, and nowhere else", () => {
    for (const address of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", " java\nscript:x", "/relative", "vbscript:x"]) expect(safeLink(address)).toBeNull();
    expect(safeLink("https://e.org/a")).toBe("https://e.org/a");
    const parts = blocks("[click](javascript:alert)").flatMap((block) => ("parts" in block ? block.parts : []));
    expect(parts.some((part) => part.kind === "link")).toBe(false);
  });
  test("what cannot be seen is shown by its number, and nothing is left out", () => {
    expect(visible("rm\u202e -rf\u200b /\u001b[2J")).toBe("rm‹U+202E› -rf‹U+200B› /‹U+001B›[2J");
    for (const text of oddTexts(500)) expect(pieces(text).map((piece) => piece.text).join("")).toBe(text);
  });
});

test("a difference holds both texts whole", () => {
  for (const before of oddTexts(60)) {
    for (const after of oddTexts(20)) {
      const lines = diffLines(before, after);
      expect(lines.filter((line) => line.sign !== "+").map((line) => line.text).join("\n")).toBe(before);
      expect(lines.filter((line) => line.sign !== "-").map((line) => line.text).join("\n")).toBe(after);
    }
  }
});

test("colours of a terminal are classes, or colours that are set by the CSSOM", () => {
  expect(styleOf("1;31")).toEqual({ classes: "t-bold t-fg1", style: {} });
  expect(styleOf("38;5;196;4")).toEqual({ classes: "t-under", style: { color: "rgb(255 0 0)" } });
  expect(styleOf("48;2;1;2;300")).toEqual({ classes: "", style: { backgroundColor: "rgb(1 2 255)" } });
});

describe("patches", () => {
  test("make the objects that their path needs, and share what they do not touch", () => {
    const before = { kept: { a: 1 }, list: [1, 2] };
    const after = applyPatch(before, [
      { op: "set", path: ["__proto__", "x"], value: 1 },
      { op: "append", path: ["list"], value: 3 },
      { op: "increment", path: ["kept", "a"], amount: 2 },
      { op: "delete", path: ["list", 0] },
      { op: "merge_object", path: ["new"], value: { b: null } },
    ]) as Record<string, unknown>;
    expect(JSON.stringify(after)).toBe('{"kept":{"a":3},"list":[2,3],"__proto__":{"x":1},"new":{"b":null}}');
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
    expect(before).toEqual({ kept: { a: 1 }, list: [1, 2] });
  });
  test("fail as a whole", () => {
    for (const op of [{ op: "append", path: ["a"], value: 1 }, { op: "increment", path: ["b"], amount: 1 }, { op: "set", path: ["list", 5], value: 1 }] as const) {
      expect(() => applyPatch({ a: "text", list: [] }, [op])).toThrow(PatchError);
    }
  });
});
