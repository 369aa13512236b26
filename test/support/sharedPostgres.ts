import type { TestProject } from 'vitest/node';
import { ownServer } from './postgresServer.js';

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgresUrl: string;
  }
}

/** One server for all files of a project: each makes databases of its own in it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await ownServer({ max_connections: '400' });
  project.provide('postgresUrl', server.url);
  return () => server.close();
}
