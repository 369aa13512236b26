import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { anchorOf } from '../../docs/.vitepress/anchors.js';

export interface Fence {
  /** What stands behind the opening fence; empty for plain text. */
  readonly language: string;
  readonly text: string;
  /** Of its first line, from 1. */
  readonly line: number;
}

export class MarkdownPage {
  readonly file: string;
  /** Between fences, or indented. */
  readonly fences: readonly Fence[];
  /** The text without fences, whose lines are left empty. */
  readonly prose: string;

  constructor(root: string, file: string) {
    this.file = file;
    const fences: Fence[] = [];
    const lines = readFileSync(join(root, file), 'utf8').split('\n');
    let open: { mark: string; language: string; line: number; text: string[] } | undefined;
    const prose = lines.map((line, index) => {
      const [, mark = '', language = ''] = /^\s*(```+|~~~+)\s*(\S*)/.exec(line) ?? [];
      if (open === undefined && mark !== '') {
        open = { mark, language, line: index + 2, text: [] };
        return '';
      }
      if (open === undefined) return line;
      if (line.trim() === open.mark) {
        fences.push({ language: open.language, text: open.text.join('\n'), line: open.line });
        open = undefined;
      } else open.text.push(line);
      return '';
    });
    for (const [index, line] of prose.entries()) {
      if (!/^ {4}\S/.test(line) || prose[index - 1]?.trim() !== '') continue;
      const end = prose.findIndex((other, at) => at > index && !other.startsWith('    '));
      const text = prose.slice(index, end === -1 ? undefined : end).map((other) => other.slice(4));
      fences.push({ language: '', text: text.join('\n'), line: index + 1 });
    }
    if (open !== undefined) throw new Error(`${file}:${open.line}: a fence that is not closed`);
    this.fences = fences;
    this.prose = prose.join('\n').replaceAll(/<!--.*?-->/gs, (comment) => comment.replaceAll(/[^\n]/g, ' '));
  }

  codeSpans(): { readonly text: string; readonly line: number }[] {
    return [...this.prose.matchAll(/(`+)(.+?)\1/gs)].map(({ 2: text = '', index }) => ({
      text: text.replaceAll(/\s+/g, ' ').trim(),
      line: lineAt(this.prose, index),
    }));
  }

  links() {
    const text = this.#withoutCode();
    const written = [...text.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)];
    const bare = [...text.matchAll(/<(https?:[^>\s]+)>/g)];
    return [...written, ...bare].map(({ 1: href = '', index }) => ({ href, line: lineAt(text, index) }));
  }

  /** Headings as they read, with their anchors: one that comes again is numbered. */
  headings(): { readonly text: string; readonly anchor: string; readonly depth: number }[] {
    const seen = new Map<string, number>();
    return [...this.prose.matchAll(/^(#{1,6}) +(.+?) *#*$/gm)].map(({ 1: marks = '', 2: written = '' }) => {
      const text = written.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '');
      const anchor = anchorOf(text);
      const before = seen.get(anchor) ?? 0;
      seen.set(anchor, before + 1);
      return { text, anchor: before === 0 ? anchor : `${anchor}-${before}`, depth: marks.length };
    });
  }

  /** Tags outside code, but for line breaks in cells: Markdown would not show what was written. */
  tags(): string[] {
    return [...this.#withoutCode().matchAll(/<\/?[a-z][^>]*>/gi)]
      .map(([tag]) => tag)
      .filter((tag) => !/^<(?:https?:|br>)/.test(tag));
  }

  /** The path in the repository that a relative link of this page means, and the anchor. */
  targetOf(href: string): { readonly path: string; readonly anchor: string } {
    const [path = '', anchor = ''] = href.split('#');
    const target = path === '' ? this.file : posix.join(posix.dirname(this.file), decodeURI(path));
    return { path: target, anchor };
  }

  /** The prose with everything in backticks blotted out, so that lengths and lines stay. */
  #withoutCode(): string {
    return this.prose.replaceAll(/(`+)(.+?)\1/gs, (code) => code.replaceAll(/[^\n]/g, 'x'));
  }
}

const lineAt = (text: string, index: number): number => text.slice(0, index).split('\n').length;
