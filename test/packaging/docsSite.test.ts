import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import MiniSearch from 'minisearch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pageFiles } from '../../docs/.vitepress/pages.js';
import { pageAt, root } from '../docs/files.js';
import { questions } from '../docs/questions.js';
import { builtPath, Site } from '../docs/Site.js';

const directory = mkdtempSync(join(tmpdir(), 'fci-site-'));
let site: Site;

beforeAll(async () => {
  await promisify(execFile)(process.execPath, ['scripts/docs-site.mjs', '--out', directory], { cwd: root });
  site = new Site(directory);
}, 180_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The text of a section: from its heading to the next one of its order or above. */
function sectionOf(file: string, anchor: string): string {
  const text = readFileSync(join(root, file), 'utf8');
  if (anchor === '') return text;
  const heading = pageAt(file)
    .headings()
    .find((candidate) => candidate.anchor === anchor);
  if (heading === undefined) throw new Error(`${file} has no heading #${anchor}`);
  const marks = '#'.repeat(heading.depth);
  const parts = text.split(new RegExp(`^(?=#{1,${heading.depth}} )`, 'm'));
  const isOurs = (part: string): boolean =>
    part.startsWith(`${marks} `) && part.split('\n', 1)[0]?.replaceAll(/[`*#]/g, '').trim() === heading.text;
  return parts.find(isOurs) ?? '';
}

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

describe('a newcomer', () => {
  it.each(questions.map((entry) => [entry.question, entry] as const))(
    '%s: is there in two clicks',
    (_, { page, anchor, words }) => {
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
      const section = sectionOf(page, anchor).replaceAll(/\s+/g, ' ');
      for (const word of words) expect(section).toContain(word);
    },
  );

  it('finds each answer by the search', async () => {
    const [path = ''] = site.files.filter((file) => file.includes('localSearchIndex'));
    const { default: index } = (await import(pathToFileURL(join(directory, path)).href)) as {
      default: string;
    };
    const search = MiniSearch.loadJSON<{ id: string }>(index, {
      fields: ['title', 'titles', 'text'],
      storeFields: ['title', 'titles'],
      searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
    });
    const missed = questions.filter(({ page, anchor, search: typed }) => {
      const found = search
        .search(typed)
        .slice(0, 10)
        .map(({ id }) => String(id));
      const wanted = `${builtPath(page)}${anchor === '' ? '' : `#${anchor}`}`;
      return !found.some((id) => (anchor === '' ? id.includes(wanted) : id.endsWith(wanted)));
    });
    expect(missed.map(({ question }) => question)).toEqual([]);
  });
});
