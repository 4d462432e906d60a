/** Where the browser tests begin: the page that they look at is the one in the package, and a browser is there. */

import { existsSync } from "node:fs";
import { CHROMIUM, PYTHON } from "./world.ts";

export default function setup(): void {
  if (!existsSync(CHROMIUM)) throw new Error(`there is no ${CHROMIUM}: run \`make test-web\`, which installs it, or \`apt-get install chromium\``);
  if (!existsSync(PYTHON)) throw new Error(`there is no ${PYTHON}: run \`make setup\``);
}
