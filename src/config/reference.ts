import { formatBytes } from './formats.js';
import { environmentOf, flagOf } from './settings.js';
import type { Setting, Settings } from './settings.js';

/** How a default reads in documentation and help. */
function defaultOf(definition: Setting): string {
  if (definition.defaultDoc !== undefined) return definition.defaultDoc;
  if (definition.format.isSwitch === true) return definition.default === true ? 'on' : 'off';
  if (typeof definition.default === 'number' && definition.format.allowed.startsWith('a size')) {
    return formatBytes(definition.default);
  }
  return String(definition.default);
}

/** `--flag VALUE`, `--edi / --no-edi`. */
function usageOf(key: string, definition: Setting): string {
  const flag = flagOf(key, definition);
  if (definition.format.isSwitch === true) return `--${flag}, --no-${flag}`;
  return `--${flag} ${definition.format.isList === true ? 'ENDPOINT …' : valueName(definition)}`;
}

function valueName(definition: Setting): string {
  const { allowed } = definition.format;
  if (allowed.startsWith('one of ')) {
    const words = allowed.slice('one of '.length).split(', ');
    if (words.length <= 4) return words.join('|');
    return 'NAME';
  }
  if (allowed.startsWith('a size')) return 'SIZE';
  if (allowed.includes('directory')) return 'DIR';
  if (allowed.includes('file')) return 'FILE';
  if (allowed.includes('host')) return 'HOST';
  return 'N';
}

/** A settings table as lines for `--help`, flag column padded. */
export function flagTable(settings: Settings): string {
  const rows = Object.entries(settings).map(([key, definition]) => [
    usageOf(key, definition),
    `${definition.doc} [${defaultOf(definition)}]`,
  ]);
  const width = Math.min(34, Math.max(...rows.map(([usage]) => usage?.length ?? 0)));
  return rows
    .map(([usage = '', doc = '']) =>
      usage.length > width
        ? `  ${usage}\n  ${' '.repeat(width)}  ${wrap(doc, width + 4)}`
        : `  ${usage.padEnd(width)}  ${wrap(doc, width + 4)}`,
    )
    .join('\n');
}

const HELP_COLUMNS = 110;

function wrap(sentence: string, indent: number): string {
  const lines: string[] = [];
  let line = '';
  for (const word of sentence.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > HELP_COLUMNS - indent) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  lines.push(line);
  return lines.join('\n' + ' '.repeat(indent));
}

/** A settings table as a Markdown reference: key, flag, environment variable, allowed values, default, meaning. */
export function configurationReference(settings: Settings): string {
  const lines = [
    '| key | flag | environment | allowed | default | meaning |',
    '| --- | --- | --- | --- | --- | --- |',
  ];
  for (const [key, definition] of Object.entries(settings)) {
    const flag = flagOf(key, definition);
    const flags = definition.format.isSwitch === true ? `\`--${flag}\`, \`--no-${flag}\`` : `\`--${flag}\``;
    const cells = [
      `\`${key}\``,
      flags,
      `\`${environmentOf(key)}\``,
      definition.format.allowed,
      defaultOf(definition),
      definition.doc,
    ];
    lines.push(`| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`);
  }
  return lines.join('\n');
}
