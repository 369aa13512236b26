import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ESLint } from 'eslint';
import { expect, it } from 'vitest';
import { floors, maxLines, nestedRooms, partsOf, rooms, roomsBelow } from '../../scripts/house.mjs';

const root = join(import.meta.dirname, '../..');

const eslint = new ESLint({
  cwd: root,
  // The rule under test needs no types; the type-checked rules would want the file on disk.
  overrideConfig: [{ files: ['**/*.ts'], languageOptions: { parserOptions: { projectService: false } } }],
  ruleFilter: ({ ruleId }) => ruleId === 'no-restricted-imports',
});

/** What the project's own lint says of the imports of a file that would stand at `path`. */
async function complaints(path: string, code: string): Promise<string[]> {
  const [result] = await eslint.lintText(code, { filePath: join(root, path) });
  return (result?.messages ?? []).map(({ message }) => message);
}

it.each([
  ['climbs a floor', 'src/storage/x.ts', "import '../collections/index.js';"],
  ['enters a room on its own floor', 'src/finality/x.ts', "import '../api/index.js';"],
  ['enters by the window', 'src/collections/x.ts', "import '../storage/schema.js';"],
  ['takes types by the window', 'src/app/x.ts', "import type { X } from '../access/types.js';"],
  ['re-exports by the window', 'src/app/x.ts', "export * from '../access/types.js';"],
  ['lets the queue know of Flow', 'src/jobqueue/x.ts', "import '../flow/index.js';"],
  ['reads the configuration outside cli and app', 'src/access/x.ts', "import '../config/index.js';"],
  ['uses the devnet outside cli', 'src/app/x.ts', "import '../devnet/index.js';"],
  ['climbs inside a room', 'src/api/view/x.ts', "import '../http/types.js';"],
  ['enters a sub-room on its own floor', 'src/api/rest/x.ts', "import '../grpc/GrpcServer.js';"],
  ['climbs to the room from a sub-room', 'src/collections/heights/x.ts', "import '../JobProcessor.js';"],
  ['climbs inside a sub-room', 'src/storage/postgres/tables/x.ts', "import '../writing/takeFence.js';"],
  ['leaves a nested room', 'src/storage/postgres/tables/x.ts', "import '../PostgresIndexStore.js';"],
  ['climbs from the ground of a room', 'src/access/types.ts', "import './pool/NodePool.js';"],
  ['climbs in a nested room', 'src/storage/records/schema.ts', "import './blocks/readBlocks.js';"],
  ['leaves its ground upwards', 'src/storage/records/schema.ts', "import '../leveldb/loadStore.js';"],
  ['takes the server into the browser', 'src/api/page/client/x.ts', "import '../pages.js';"],
  ['imports main', 'src/cli/x.ts', "import '../main.js';"],
  ['uses level outside storage', 'src/collections/x.ts', "import 'level';"],
  ['enters a room by the window from main', 'src/main.ts', "import './app/exitCodes.js';"],
])('the lint refuses an import that %s', async (_name, path, code) => {
  expect(await complaints(path, code)).not.toEqual([]);
});

it.each([
  ['goes down a floor', 'src/collections/x.ts', "import '../storage/index.js';"],
  ['stays in its room', 'src/collections/x.ts', "import './ports.js';"],
  ['goes down inside a room', 'src/api/rest/x.ts', "import '../view/ApiError.js';"],
  ['stands on the ground of a room', 'src/collections/requester/x.ts', "import '../ports.js';"],
  ['goes down inside a sub-room', 'src/storage/postgres/verify/x.ts', "import '../tables/schema.js';"],
  ['goes down from a nested room', 'src/storage/postgres/tables/x.ts', "import '../../records/schema.js';"],
  ['uses the package of its room', 'src/storage/x.ts', "import 'level';"],
])('the lint accepts an import that %s', async (_name, path, code) => {
  expect(await complaints(path, code)).toEqual([]);
});

it('the lint names every folder of src, and lets nobody import upwards', () => {
  const folders = foldersOf(join(root, 'src'));
  expect([...rooms].sort()).toEqual(folders.sort());
  const weighed = Object.keys(maxLines).map((path) => path.replace(/^src\//, ''));
  expect(folders.filter((name) => !weighed.includes(name))).toEqual([]);
  for (const [floor, names] of floors.entries()) {
    for (const room of names) {
      const higher = floors.slice(0, floor + 1).flat();
      expect(roomsBelow(room).filter((name: string) => higher.includes(name))).toEqual([]);
    }
  }
});

it.each([...rooms, ...nestedRooms])('it names every sub-room of %s, and nothing else', (room) => {
  const path = join(root, 'src', room);
  const parts = partsOf(room);
  expect(foldersOf(path).filter((name) => !parts.some((part) => part.name === name))).toEqual([]);
  expect(parts.filter(({ name }) => !existsSync(join(path, name)))).toEqual([]);
  for (const { name, below } of parts) {
    const mutual = parts.filter((part) => below.includes(part.name) && part.below.includes(name));
    expect(mutual.filter((part) => !part.isFile)).toEqual([]);
  }
});

const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
const floorsSection = page.slice(page.indexOf('\n## The floors'), page.indexOf('\n## Two threads'));

it.each([...rooms, ...nestedRooms])('the picture of the house names every sub-room of %s', (room) => {
  expect(floorsSection).toContain(`${room.split('/')[0] ?? ''}/`);
  const drawn = foldersOf(join(root, 'src', room)).filter((name) => floorsSection.includes(`${name}/`));
  expect(drawn).toEqual(foldersOf(join(root, 'src', room)));
});

const read = (path: string) => readFileSync(join(root, path), 'utf8');
const filesOf = (folder: string) =>
  (readdirSync(join(root, folder), { recursive: true }) as string[])
    .filter((path) => /\.tsx?$/.test(path))
    .map((path) => ({ path: join(folder, path), code: read(join(folder, path)) }));
const src = filesOf('src');
const files = src
  .filter(({ path }) => path.endsWith('.ts') && basename(path) !== 'index.ts')
  .map((file) => ({ ...file, name: basename(file.path, '.ts') }));

it('the files of the house bear the name of the class that they export, and no other file is in PascalCase', () => {
  const misnamed = files.filter(({ name, code }) => {
    const classes = namesOf(code, 'class');
    if (classes.length > 0) return !classes.includes(name);
    return /^[A-Z]/.test(name) && !namesOf(code, 'interface').includes(name);
  });
  expect(misnamed.map(({ path }) => path)).toEqual([]);
});

it('the files of the house have private members of one kind', () => {
  const others = files.filter(({ code }) => /^ {2}(private|protected) (?!constructor)/m.test(code));
  expect(others.map(({ path }) => path)).toEqual([]);
});

const doors = rooms.map((room) => ({ room, names: namesIn(read(`src/${room}/index.ts`), 'export') }));

/** The job queue is an entry point of the package as well (docs/jobqueue.md), and the simulated node is made for tests. */
it.each(doors.filter(({ room }) => room !== 'jobqueue' && room !== 'devnet'))(
  'the doors of the house of $room gives only what another room takes',
  ({ room, names }) => {
    const others = src.filter(({ path }) => !path.startsWith(`src/${room}/`)).map(({ code }) => code);
    expect(names.filter((name) => !others.some((code) => new RegExp(`\\b${name}\\b`).test(code)))).toEqual(
      [],
    );
  },
);

it('the doors of the house are what tests go in by, where there is one for what they want', () => {
  const around = filesOf('test').flatMap(({ path, code }) =>
    doors.flatMap(({ room, names }) =>
      namesIn(code, 'import', `[^']*/src/${room}/(?!index)[^']+`)
        .filter((name) => names.includes(name))
        .map((name) => `${path} takes ${name} of ${room}`),
    ),
  );
  expect(around).toEqual([]);
});

/** What the statements of this kind that name these modules take or give. */
function namesIn(code: string, kind: 'export' | 'import', from = "[^']+"): string[] {
  const statements = code.matchAll(new RegExp(`${kind} (?:type )?\\{([^}]*)\\} from '${from}'`, 'g'));
  return [...statements].flatMap(([, names = '']) =>
    names
      .split(',')
      .map((name) => name.trim().replace(/^type /, ''))
      .map((name) => name.split(' as ')[kind === 'export' ? 1 : 0] ?? name)
      .filter((name) => name !== ''),
  );
}

function foldersOf(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

function namesOf(code: string, kind: 'class' | 'interface'): (string | undefined)[] {
  return [...code.matchAll(new RegExp(`^export (?:abstract )?${kind} (\\w+)`, 'gm'))].map(([, name]) => name);
}
