import { join } from 'node:path';
import { pageFiles } from '../../docs/.vitepress/pages.js';
import { MarkdownPage } from './MarkdownPage.js';

export const root = join(import.meta.dirname, '../..');

/** Every Markdown file that people read: the pages of the site, and what stands outside of it. */
export const pages: readonly MarkdownPage[] = [...pageFiles(root), 'README.md', 'proto/README.md'].map(
  (file) => new MarkdownPage(root, file),
);

export function pageAt(file: string): MarkdownPage {
  const page = pages.find((candidate) => candidate.file === file);
  if (page === undefined) throw new Error(`there is no page ${file}`);
  return page;
}
