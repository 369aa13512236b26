import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { anchorOf } from './anchors.js';
import { longNames } from './longNames.js';
import { menu, otherFiles, pageFiles, sitePath } from './pages.js';
import { contentOf, repositoryLinks } from './repositoryLinks.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const pages = new Map(pageFiles(root).map((file) => [file, sitePath(file)]));
/** Path in the site → path in the repository, of the files that pages link to. */
const linked = new Map<string, string>();

const linkOf = (file: string): string => `/${sitePath(file)}`;

/** `npm run docs:site` builds the site, `-- --serve` shows it while pages are edited (scripts/docs-site.mjs). */
export default defineConfig({
  title: 'Flow collection indexer',
  description: 'A verified, complete, queryable local index of every collection and transaction of Flow.',
  lang: 'en',
  srcDir: root,
  srcExclude: [...otherFiles(root)],
  rewrites: Object.fromEntries(pages),
  outDir: join(root, 'docs/.vitepress/dist'),
  cacheDir: join(root, 'docs/.vitepress/cache'),
  // Relative, so that the site works in any folder of any server.
  base: './',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    // Addresses in a text are examples.
    linkify: false,
    // The same anchors as in the repository.
    anchor: { slugify: anchorOf },
    config: (md) => {
      longNames(md);
      repositoryLinks(md, { root, pages, linked });
    },
  },
  vite: {
    publicDir: false,
    plugins: [
      {
        name: 'linked-files',
        configureServer: ({ middlewares }) => {
          middlewares.use((request, response, next) => {
            const file = linked.get((request.url ?? '').replace(/^\//, ''));
            if (file === undefined) {
              next();
              return;
            }
            response.setHeader('content-type', 'text/plain; charset=utf-8');
            response.end(contentOf(join(root, file)));
          });
        },
      },
    ],
  },
  buildEnd: ({ outDir }) => {
    for (const [place, file] of linked) {
      const target = join(outDir, place);
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, contentOf(join(root, file)));
    }
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    externalLinkIcon: true,
    nav: [
      { text: 'Quickstart', link: linkOf('docs/quickstart.md') },
      { text: 'Runbook', link: linkOf('docs/runbook.md') },
      { text: 'API', link: linkOf('docs/api.md') },
      { text: 'FAQ', link: linkOf('docs/faq.md') },
    ],
    sidebar: menu.map(({ title, isCollapsed = false, pages: items }) => ({
      text: title,
      collapsed: isCollapsed,
      items: items.map(([text, file]) => ({ text, link: linkOf(file) })),
    })),
  },
});
