import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      { test: { name: "unit", include: ["tests/*.test.ts"] } },
      {
        test: {
          name: "browser",
          include: ["tests/browser/*.test.ts"],
          fileParallelism: false,
          testTimeout: 240_000,
          hookTimeout: 120_000,
          globalSetup: "tests/browser/setup.ts",
        },
      },
    ],
  },
});
