import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import MiniSearch from 'minisearch';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pageFiles } from '../../docs/.vitepress/pages.js';
import { pageAt, root } from '../docs/files.js';
import { builtPath, Site } from '../docs/Site.js';

const directory = mkdtempSync(join(tmpdir(), 'fci-site-'));
let site: Site;

beforeAll(async () => {
  await promisify(execFile)(process.execPath, ['scripts/docs-site.mjs', '--out', directory], { cwd: root });
  site = new Site(directory);
}, 180_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

it('has every page, with the anchors of the repository', () => {
  expect([...site.pages.keys()].sort()).toEqual(pageFiles(root).map(builtPath).sort());
  for (const file of pageFiles(root)) {
    const anchors = pageAt(file)
      .headings()
      .map(({ anchor }) => anchor);
    expect([...site.of(file).ids].sort(), file).toEqual([...anchors].sort());
  }
});

it('has no link that leads nowhere', () => {
  const files = new Set(site.files);
  const dead = [...site.pages].flatMap(([path, page]) =>
    page.links
      .filter(
        (link) =>
          !files.has(link.path) ||
          (link.anchor !== '' && site.pages.get(link.path)?.ids.has(link.anchor) !== true),
      )
      .map((link) => `${path} → ${link.path}#${link.anchor}`),
  );
  expect(dead).toEqual([]);
});

it('loads nothing from elsewhere', () => {
  const loaded = site.files.flatMap((path) => {
    if (path.endsWith('.html'))
      return [...site.read(path).matchAll(/<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="([^"]*)"/g)];
    return path.endsWith('.css') ? [...site.read(path).matchAll(/(?:url\(|@import\s+)["']?([^"')]+)/g)] : [];
  });
  expect(loaded.length).toBeGreaterThan(100);
  expect(
    loaded.map(([, address = '']) => address).filter((address) => /^(https?:)?\/\//.test(address)),
  ).toEqual([]);
});

/** Where the answer to what a newcomer asks stands; and what one types into the search field where that is not the question. */
const questions: readonly (readonly [where: string, question: string, typed?: string])[] = [
  ['docs/quickstart.md#see-it-run', 'How do I see it run without an access node?'],
  ['docs/quickstart.md#what-you-need', 'What do I have to install first?', 'what you need Node.js npm'],
  ['docs/beside-an-access-node.md#what-the-node-has-to-offer', 'What does my access node have to offer?'],
  ['docs/beside-an-access-node.md#start-it', 'How do I start it beside my node?'],
  ['docs/beside-an-access-node.md#how-much-it-asks-of-the-node', 'Will it overload my node?'],
  ['docs/public-nodes.md#how-fast', 'Can I run it on public nodes, and how fast is that?'],
  [
    'docs/scale-out.md#ranges-on-one-machine',
    'How do I get history from before I started?',
    'backfill plan history',
  ],
  ['docs/scale-out.md#many-machines', 'How do I use several machines?'],
  ['docs/edi-only.md#when-to-use-it', 'When do I want execution data only?'],
  ['docs/sizing.md#disk', 'How much disk does it need?'],
  ['docs/sizing.md#memory-and-processor', 'How much memory and processor does it need?'],
  ['docs/install.md', 'How do I run it as a service?', 'install systemd service'],
  ['docs/monitoring.md#is-it-healthy', 'How do I know that it is well?', 'is it healthy livez readyz'],
  ['docs/alerts.md#setting-them-up', 'Where are dashboard and alerts?'],
  ['docs/readiness.md', 'It is not ready: what does the code mean?', 'readiness upstream_unreachable'],
  ['docs/command-line.md#explain', 'It does not move: what holds it up?', 'explain stage fetching'],
  [
    'docs/operations.md#what-you-see-what-it-means-what-to-do',
    'The disk is full, or a file is damaged: what now?',
  ],
  [
    'docs/data-guide.md#look-something-up',
    'How do I look up a transaction?',
    'look something up transaction',
  ],
  ['docs/data-guide.md#export-it', 'How do I get the data out?', 'export data lines of JSON'],
  [
    'SECURITY.md#what-is-verified-and-what-is-taken-on-trust',
    'What is verified, and what do I have to trust?',
  ],
];

it.each(questions.map(([where, question]) => [where, question] as const))(
  'a newcomer finds in two clicks, in %s: %s',
  (where) => {
    const [page = '', anchor = ''] = where.split('#');
    const target = builtPath(page);
    const isAnswer = (link: { path: string; anchor: string }): boolean =>
      link.path === target && link.anchor === anchor;
    const first = site.of('docs/index.md').links;
    const clicks = first.some(isAnswer)
      ? 1
      : first.some(
            ({ path }) =>
              site.pages.get(path)?.links.some(isAnswer) === true ||
              (path === target && site.pages.get(path)?.outline.has(anchor) === true),
          )
        ? 2
        : Infinity;
    expect(clicks).toBeLessThanOrEqual(2);
  },
);

it('a newcomer finds each answer by the search', async () => {
  const [path = ''] = site.files.filter((file) => file.includes('localSearchIndex'));
  const { default: index } = (await import(pathToFileURL(join(directory, path)).href)) as { default: string };
  const search = MiniSearch.loadJSON<{ id: string }>(index, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
    searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
  });
  const missed = questions.filter(([where, question, typed = question]) => {
    const [page = '', anchor = ''] = where.split('#');
    const found = search
      .search(typed)
      .slice(0, 10)
      .map(({ id }) => String(id));
    const wanted = `${builtPath(page)}${anchor === '' ? '' : `#${anchor}`}`;
    return !found.some((id) => (anchor === '' ? id.includes(wanted) : id.endsWith(wanted)));
  });
  expect(missed).toEqual([]);
});
