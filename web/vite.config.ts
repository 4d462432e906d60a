import { defineConfig } from "vite";

/** The built page is part of the Python package: flat, named by content, and the same bytes each time. */
export default defineConfig({
  base: "/assets/",
  publicDir: false,
  build: {
    outDir: "../src/interlock/web/assets",
    emptyOutDir: true,
    assetsDir: "",
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
