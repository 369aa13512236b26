import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { menu, pageFiles } from '../../../docs/.vitepress/pages.js';
import { pages, root } from '../../docs/files.js';

const anchors = new Map(
  pages.map((page) => [page.file, new Set(page.headings().map(({ anchor }) => anchor))]),
);

describe.each(pages.map((page) => [page.file, page] as const))('%s', (file, page) => {
  it('links to files and headings that are there', () => {
    const dead = page.links().flatMap(({ href, line }) => {
      if (/^[a-z]+:/.test(href)) return [];
      const { path, anchor } = page.targetOf(href);
      const isThere = existsSync(join(root, path));
      if (!isThere || path.startsWith('..')) return [`${file}:${line}: there is no ${path}`];
      if (anchor === '' || anchors.get(path)?.has(anchor) === true) return [];
      return [`${file}:${line}: ${path} has no heading #${anchor}`];
    });
    expect(dead).toEqual([]);
  });

  // Nobody follows them here: tests need no network.
  it('links to other sites by well-formed addresses, over https; begins with its only title, and holds nothing but Markdown', () => {
    for (const { href } of page.links().filter((link) => /^[a-z]+:/.test(link.href))) {
      const { protocol, hostname } = new URL(href);
      if (hostname === '127.0.0.1') expect(protocol).toBe('http:');
      else expect({ href, protocol }).toEqual({ href, protocol: 'https:' });
    }
    expect(page.headings().filter(({ depth }) => depth === 1)).toHaveLength(1);
    expect([page.prose.trimStart().startsWith('# '), page.tags()]).toEqual([true, []]);
  });
});

it('lists every page in the menu, once', () => {
  const listed = menu.flatMap((group) => group.pages.map(([, file]) => file));
  expect([...listed].sort()).toEqual([...pageFiles(root)]);
});
