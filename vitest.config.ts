import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** A machine that is shared may starve a process. */
const ofWholeProcesses = { testTimeout: 180_000, hookTimeout: 60_000 };
const sharedPostgres = ['test/support/sharedPostgres.ts'];

/** Tests by kind, each runnable alone: `vitest run --project unit`. */
export default defineConfig({
  test: {
    // Files beside each other, two more than there are processors, as most end-to-end tests wait now and then: no test
    // asserts a speed, or takes a port that another one may be given (test/support/lastingPort.ts). One fewer leaves a sixth
    // of two processors idle. With more, each only waits for the others.
    maxWorkers: availableParallelism() + 2,
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 60_000, isolate: false } },
      { test: { name: 'simulation', include: ['test/simulation/**/*.test.ts'], testTimeout: 180_000 } },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          globalSetup: sharedPostgres,
          testTimeout: 60_000,
          isolate: false,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          globalSetup: sharedPostgres,
          // The simulated node and the rest are loaded once per worker, and not once per file.
          isolate: false,
          // gRPC reads it when it is loaded. So a daemon in the process of a test trusts a node of the tests.
          env: {
            GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: join(import.meta.dirname, 'test/data/tls/localhost-cert.pem'),
          },
          ...ofWholeProcesses,
        },
      },
      {
        // The SDK keeps its configuration for the whole process.
        test: { name: 'sdk', include: ['test/sdk/**/*.test.ts'], ...ofWholeProcesses },
      },
    ],
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary', 'html'] },
  },
});
