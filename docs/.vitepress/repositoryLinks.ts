import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, posix, relative, sep } from 'node:path';
import type { MarkdownRenderer } from 'vitepress';

/** Where the site keeps files of the repository that a page links to and that are no pages. */
const FILES_FOLDER = 'files/';

/** A linked file as it is; of a folder, the names in it. */
export function contentOf(path: string): Buffer | string {
  return statSync(path).isDirectory() ? `${readdirSync(path).join('\n')}\n` : readFileSync(path);
}

export interface SiteFiles {
  readonly root: string;
  /** Path in the repository → path in the site. */
  readonly pages: ReadonlyMap<string, string>;
  /** Path in the site → path in the repository, of linked files; filled while pages are rendered. */
  readonly linked: Map<string, string>;
}

/**
 * Links are written for the repository, where files stand elsewhere than in the site. Those to pages lead to the page;
 * those to any other file lead to a copy of it, as text.
 */
export function repositoryLinks(md: MarkdownRenderer, { root, pages, linked }: SiteFiles): void {
  md.core.ruler.push('repository_links', (state) => {
    const env = state.env as { realPath?: string; path?: string };
    const source = env.realPath ?? env.path;
    if (source === undefined) return;
    const file = relative(root, source).split(sep).join('/');
    const here = posix.dirname(pages.get(file) ?? file);
    for (const { children } of state.tokens) {
      for (const token of children ?? []) {
        const href = token.type === 'link_open' ? token.attrGet('href') : null;
        const [, path = '', anchor = ''] = /^([^#:]+)(#.*)?$/.exec(href ?? '') ?? [];
        if (path === '') continue;
        const target = posix.join(posix.dirname(file), decodeURI(path));
        let place = pages.get(target);
        // A link that leads nowhere is left for VitePress to refuse, with its line.
        if (place === undefined && !existsSync(join(root, target))) continue;
        if (place === undefined) {
          place = `${FILES_FOLDER}${target.replace(/\/$/, '')}.txt`;
          linked.set(place, target);
          token.attrSet('target', '_self');
        }
        token.attrSet('href', posix.relative(here, place) + anchor);
      }
    }
  });
}
