import { defineConfig } from 'vitest/config';

/** `npm run test:packaging`: what installs, packs, releases and builds images, and takes minutes for each. */
export default defineConfig({
  test: { include: ['test/packaging/**/*.test.ts'], maxWorkers: 2, hookTimeout: 60_000 },
});
