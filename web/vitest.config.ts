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
          testTimeout: 60_000,
          hookTimeout: 60_000,
          globalSetup: "tests/browser/setup.ts",
        },
      },
    ],
  },
});
