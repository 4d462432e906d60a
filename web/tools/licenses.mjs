// Writes the licences of the bundled packages into one file beside the page, which a server serves as /assets/licenses.txt.
import { readFileSync, writeFileSync } from "node:fs";

const { dependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const parts = Object.entries(dependencies).map(([name, version]) => {
  const license = readFileSync(new URL(`../node_modules/${name}/LICENSE`, import.meta.url), "utf8").trim();
  return `${name} ${version}\n\n${license}\n`;
});
const head = "The page holds code of these packages.\n\n";
writeFileSync(new URL("../../src/interlock/web/assets/licenses.txt", import.meta.url), head + parts.join(`\n${"-".repeat(80)}\n\n`));
