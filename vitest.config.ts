import { defineConfig } from 'vitest/config';

/** Tests by kind, each runnable alone: `vitest run --project unit`. */
export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 60_000 } },
      { test: { name: 'simulation', include: ['test/simulation/**/*.test.ts'], testTimeout: 180_000 } },
      { test: { name: 'integration', include: ['test/integration/**/*.test.ts'], testTimeout: 60_000 } },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          // Real processes share two cores: one scenario at a time keeps their timing honest.
          fileParallelism: false,
          // A machine that is shared may starve them all the same: one that fails is played once more, and the report says so.
          retry: 1,
        },
      },
    ],
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary', 'html'] },
  },
});
