// Writes client/wire.ts from docs/reference/frames.schema.json: the types of every frame, request and answer.
// `node tools/wire-types.mjs --check` compares instead; tests/wire.test.ts calls `wireTypes` and does the same.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SCHEMA = new URL("../../docs/reference/frames.schema.json", import.meta.url);
const TARGET = new URL("../client/wire.ts", import.meta.url);
const HEAD = "// Made by web/tools/wire-types.mjs from docs/reference/frames.schema.json. Edits here are overwritten.\n";

const JSON_TYPE = `export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };\n`;

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.prefixItems) return `readonly [${schema.prefixItems.map(typeOf).join(", ")}]`;
  switch (schema.type) {
    case "null":
      return "null";
    case "boolean":
      return "boolean";
    case "integer":
    case "number":
      return "number";
    case "string":
      return "string";
    case "array":
      return `readonly (${schema.items ? typeOf(schema.items) : "Json"})[]`;
    case "object":
      if (schema.properties) return inline(schema);
      return schema.additionalProperties ? `{ readonly [name: string]: ${typeOf(schema.additionalProperties)} }` : "{ readonly [name: string]: Json }";
    default:
      return "Json";
  }
}

function inline(schema) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(
    ([name, value]) => `  readonly ${/^\w+$/.test(name) ? name : JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${typeOf(value)};`,
  );
  return `{\n${fields.join("\n")}\n}`;
}

function comment(schema) {
  const text = (schema.description ?? "").split("\n").map((line) => line.trim());
  return text[0] ? `/** ${text.join("\n * ").replaceAll("*/", "* /")} */\n` : "";
}

export function wireTypes() {
  const { $defs } = JSON.parse(readFileSync(SCHEMA, "utf8"));
  const parts = Object.entries($defs).map(([name, schema]) => {
    const type = typeOf(schema);
    const isObject = schema.type === "object" && schema.properties;
    return comment(schema) + (isObject ? `export interface ${name} ${type}\n` : `export type ${name} = ${type};\n`);
  });
  return [HEAD, JSON_TYPE, ...parts].join("\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const made = wireTypes();
  if (!process.argv.includes("--check")) writeFileSync(TARGET, made);
  else if (readFileSync(TARGET, "utf8") !== made) {
    console.error("client/wire.ts is not made from this schema: run `npm run wire`");
    process.exit(1);
  }
}
