import { join } from 'node:path';
import { ESLint } from 'eslint';
import { describe, expect, it } from 'vitest';
import { floors, rooms, roomsBelow } from '../../scripts/house.mjs';

const root = join(import.meta.dirname, '../..');

/** What the project's own lint says of the imports of a file that would stand at `path`. */
async function complaints(path: string, code: string): Promise<string[]> {
  const eslint = new ESLint({
    cwd: root,
    // The rule under test needs no types; the type-checked rules would want the file on disk.
    overrideConfig: [{ files: ['**/*.ts'], languageOptions: { parserOptions: { projectService: false } } }],
    ruleFilter: ({ ruleId }) => ruleId === 'no-restricted-imports',
  });
  const [result] = await eslint.lintText(code, { filePath: join(root, path) });
  return (result?.messages ?? []).map(({ message }) => message);
}

describe('the floors of the house', () => {
  it.each([
    ['climbs a floor', 'src/storage/x.ts', "import '../collections/index.js';"],
    ['climbs to the roof', 'src/flow/x.ts', "import '../app/index.js';"],
    ['enters a room on its own floor', 'src/finality/x.ts', "import '../api/index.js';"],
    ['enters by the window', 'src/collections/x.ts', "import '../storage/schema.js';"],
    ['enters by the window from a nested folder', 'src/api/rest/x.ts', "import '../../flow/types.js';"],
    ['climbs from a nested folder', 'src/access/grpc/x.ts', "import '../../collections/index.js';"],
    [
      'takes types by the window',
      'src/app/x.ts',
      "import type { X } from '../access/types.js'; export type Y = X;",
    ],
    ['re-exports by the window', 'src/app/x.ts', "export * from '../access/types.js';"],
    ['lets the queue know of Flow', 'src/jobqueue/x.ts', "import '../flow/index.js';"],
    ['reads the configuration outside cli and app', 'src/access/x.ts', "import '../config/index.js';"],
    ['uses the devnet outside cli', 'src/app/x.ts', "import '../devnet/index.js';"],
    ['imports main', 'src/cli/x.ts', "import '../main.js';"],
    ['uses level outside storage', 'src/collections/x.ts', "import 'level';"],
    ['uses gRPC outside its rooms', 'src/collections/x.ts', "import '@grpc/grpc-js';"],
    ['enters a room by the window from main', 'src/main.ts', "import './app/exitCodes.js';"],
    ['tests a room by the window', 'test/unit/x.test.ts', "import '../../src/storage/records/schema.js';"],
  ])('refuses an import that %s', async (_name, path, code) => {
    expect(await complaints(path, code)).not.toEqual([]);
  });

  it.each([
    ['goes down a floor', 'src/collections/x.ts', "import '../storage/index.js';"],
    ['goes down many floors', 'src/app/x.ts', "import '../runtime/index.js';"],
    ['stays in its room', 'src/collections/x.ts', "import './ports.js';"],
    ['uses the package of its room', 'src/storage/x.ts', "import 'level';"],
  ])('accepts an import that %s', async (_name, path, code) => {
    expect(await complaints(path, code)).toEqual([]);
  });

  it('names every folder of src, and lets nobody import upwards', async () => {
    const { readdirSync } = await import('node:fs');
    const folders = readdirSync(join(root, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
    expect([...rooms].sort()).toEqual(folders.sort());
    for (const [floor, names] of floors.entries()) {
      for (const room of names) {
        const higher = floors.slice(0, floor + 1).flat();
        expect(roomsBelow(room).filter((name: string) => higher.includes(name))).toEqual([]);
      }
    }
  });
});
