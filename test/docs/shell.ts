import type { MarkdownPage } from './MarkdownPage.js';

export interface ShellLine {
  readonly file: string;
  readonly line: number;
  /** Without its comment, continued lines joined. */
  readonly text: string;
  /** What stands behind ` # `. */
  readonly comment: string;
  /** In running text, where it may be cut short and has no output. */
  readonly isInline: boolean;
}

const shellLanguages = ['sh', 'bash', 'shell', 'console'];

/** Programs by which a line in a fence without a language, or in running text, is known as a command. */
const programs = ['flow-collection-indexer', 'npx', 'npm', 'node', 'curl', 'docker'];

/** Every command of a page: the lines of its shell fences, and those in running text and plain fences that begin like one. */
export function shellLines(page: MarkdownPage): ShellLine[] {
  const inFences = page.fences.flatMap(({ language, text, line }) => {
    const isShell = shellLanguages.includes(language);
    // Without a language it may be output as well.
    if (!isShell && language !== '') return [];
    const lines: ShellLine[] = [];
    let joined = '';
    for (const [index, written] of text.split('\n').entries()) {
      const continued = /^(.*?)\s*\\$/.exec(written);
      if (continued !== null) {
        joined += `${continued[1] ?? ''} `;
        continue;
      }
      const [, command = '', comment = ''] = /^(.*?)(?:(?:^|\s+)# ?(.*))?$/.exec(joined + written) ?? [];
      joined = '';
      const isCommand = isShell ? command.trim() !== '' : isKnown(command) && !command.startsWith('node ');
      if (isCommand)
        lines.push({ file: page.file, line: line + index, text: command.trim(), comment, isInline: false });
    }
    return lines;
  });
  const inText = page
    .codeSpans()
    .filter(({ text }) => isKnown(text))
    .map(({ text, line }) => ({ file: page.file, line, text, comment: '', isInline: true }));
  return [...inFences, ...inText];
}

const isKnown = (text: string): boolean => programs.some((program) => text.startsWith(`${program} `));

/** The commands of a line: what stands between `|`, `;`, `&&` and `||`, without assignments before and redirections behind. */
export function commandsIn(text: string): string[][] {
  const commands: string[][] = [[]];
  for (const [whole, operator, single, double, plain] of text.matchAll(
    /(\|\||&&|[|;&])|'([^']*)'|"((?:[^"\\]|\\.)*)"|((?:[^\s'"|;&]|(?<=\S)['"])+)/g,
  )) {
    if (operator !== undefined) commands.push([]);
    else commands.at(-1)?.push(single ?? double ?? plain ?? whole);
  }
  return commands.map(withoutShell).filter((words) => words.length > 0);
}

function withoutShell(words: readonly string[]): string[] {
  const begin = words.findIndex((word) => !/^[A-Z_]+=/.test(word));
  const rest = begin === -1 ? [] : words.slice(begin);
  const end = rest.findIndex((word) => /^\d?>/.test(word));
  return end === -1 ? rest : rest.slice(0, end);
}
