import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import createClient from 'openapi-fetch';
import type { paths } from '../../docs/examples/api-types.js';
import { eventually, indexedHere, RestNode, scratchDirectory, together } from '../support/daemons.js';

const HEAD = 60;
const FROM = 40;
const COUNT = 12;
const repository = join(import.meta.dirname, '..', '..');
const example = (name: string): string => join(repository, 'docs', 'examples', name);
const run = promisify(execFile);

const has = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;
const browsers = ['chromium', 'chromium-browser', 'google-chrome'];

let apiUrl = '';

/** What each example has to print, from the index by other calls than theirs. */
async function expectedLines(): Promise<string> {
  const client = createClient<paths>({ baseUrl: apiUrl });
  const lines: string[] = [];
  for (let height = FROM; height < FROM + COUNT; height += 1) {
    const { data, error } = await client.GET('/v1/blocks/{block}/collections', {
      params: { path: { block: String(height) }, query: { expand: 'transactions' } },
    });
    if (error !== undefined) throw new Error(error.message);
    lines.push(`${height} ${data.block_id}`);
    for (const { transactions = [] } of data.collections)
      lines.push(...transactions.map(({ id, payer }) => `  ${id} ${payer}`));
  }
  return lines.join('\n');
}

/** Where the first stream is refused, as by a daemon that has too many, and the first of the other answers is cut off. */
async function unreliable(): Promise<string> {
  const begun = new Set<boolean>();
  const { url } = await RestNode.start(({ url: path = '' }, response) => {
    const isStream = path.startsWith('/events');
    const isFirst = !begun.has(isStream);
    begun.add(isStream);
    response.setHeader('access-control-allow-origin', '*');
    if (!isFirst) response.writeHead(307, { location: apiUrl + path }).end();
    else if (isStream) response.writeHead(503).end();
    else response.writeHead(200, { 'content-length': 9 }).write('{', () => response.destroy());
  });
  return url;
}

/** What a program prints, given where to read, from which height, and how many. */
async function printed(program: string, ...args: string[]): Promise<string> {
  const asked = [...args, await unreliable(), String(FROM), String(COUNT)];
  const { stdout } = await run(program, asked, { cwd: scratchDirectory() });
  return stdout.trimEnd();
}

/** The page in a browser of the machine, from an origin of its own. */
async function shownBy(browser: string): Promise<string> {
  const { url } = await RestNode.start((_request, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end(readFileSync(example('follow.html')));
  });
  const query = new URLSearchParams({ api: await unreliable(), from: String(FROM), count: String(COUNT) });
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--dump-dom', '--virtual-time-budget=20000'];
  const profile = `--user-data-dir=${scratchDirectory()}`;
  const { stdout } = await run(browser, [...flags, profile, `${url}/?${query.toString()}`]);
  return /<pre>(.*)\n<\/pre>/s.exec(stdout)?.[1] ?? stdout;
}

it('docs/examples follow the index in each language that the machine has', async () => {
  const { daemon } = await indexedHere({ seed: 21, startHead: HEAD });
  apiUrl = daemon.apiUrl;
  await eventually(async () => {
    const { data } = await createClient<paths>({ baseUrl: apiUrl }).GET('/status');
    return data?.latestIndexed === HEAD;
  });
  const expected = await expectedLines();
  expect(expected.split('\n').length).toBeGreaterThan(COUNT);

  const tsx = join(repository, 'node_modules', '.bin', 'tsx');
  const browser = browsers.find((name) => has(name, '--version'));
  // Beside each other: Go compiles its own library first, where nobody has.
  await together({
    TypeScript: async () => expect(await printed(tsx, example('follow.ts'))).toBe(expected),
    ...(has('python3', '--version') && {
      Python: async () => expect(await printed('python3', example('follow.py'))).toBe(expected),
    }),
    ...(has('go', 'version') && {
      Go: async () => expect(await printed('go', 'run', example('follow.go'))).toBe(expected),
    }),
    ...(browser !== undefined && { JavaScript: async () => expect(await shownBy(browser)).toBe(expected) }),
  });
});
