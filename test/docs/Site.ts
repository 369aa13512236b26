import { readdirSync, readFileSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import { sitePath } from '../../docs/.vitepress/pages.js';

type BuiltPage = ReturnType<typeof pageOf>;

export class Site {
  readonly directory: string;
  readonly files: readonly string[];
  readonly pages: ReadonlyMap<string, BuiltPage>;

  constructor(directory: string) {
    this.directory = directory;
    this.files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).map((path) =>
      path.split(sep).join('/'),
    );
    this.pages = new Map(
      this.files
        .filter((path) => path.endsWith('.html') && path !== '404.html')
        .map((path) => [path, pageOf(path, this.read(path))]),
    );
  }

  read(path: string): string {
    return readFileSync(join(this.directory, path), 'utf8');
  }

  of(file: string): BuiltPage {
    const page = this.pages.get(builtPath(file));
    if (page === undefined) throw new Error(`${file} is not in the site`);
    return page;
  }
}

export const builtPath = (file: string): string => sitePath(file).replace(/\.md$/, '.html');

function pageOf(path: string, html: string) {
  const [, content = ''] = /<main[^>]*>(.*?)<\/main>/s.exec(html) ?? [];
  const hrefs = [...content.matchAll(/<a\b[^>]*?\bhref="([^"]+)"[^>]*>/g)]
    .filter(([tag]) => !tag.includes('header-anchor'))
    .map(([, href = '']) => href.replaceAll('&amp;', '&'));
  const idsOf = (tags: string): Set<string> =>
    new Set(
      [...content.matchAll(new RegExp(`<${tags}\\b[^>]*? id="([^"]+)"`, 'g'))].map(([, id = '']) => id),
    );
  return {
    ids: idsOf('h[1-6]'),
    /** What "On this page" lists. */
    outline: idsOf('h[23]'),
    links: hrefs
      .filter((href) => !/^[a-z]+:/.test(href))
      .map((href) => {
        const [to = '', anchor = ''] = href.split('#');
        const target = to === '' ? path : posix.join(posix.dirname(path), decodeURI(to));
        return { path: target, anchor: decodeURIComponent(anchor) };
      }),
  };
}
