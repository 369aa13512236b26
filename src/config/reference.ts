import { formatBytes, SIZE } from './formats.js';
import { environmentOf, flagOf } from './settings.js';
import type { Setting, Settings } from './settings.js';

/** The default as shown in documentation and help. */
function defaultOf(definition: Setting): string {
  const { default: value, defaultDoc, format } = definition;
  if (defaultDoc !== undefined) return defaultDoc;
  if (format.isSwitch === true) return value === true ? 'on' : 'off';
  if (typeof value === 'number' && format.value === SIZE) return formatBytes(value);
  if (value === null) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A flag as shown in help: its value, what it does, its default. */
export function flagHelp(
  key: string,
  definition: Setting,
): { readonly usage: string; readonly description: string } {
  const { doc, format } = definition;
  const flag = flagOf(key, definition);
  const value = valueName(key, definition);
  const choice = value === MANY_WORDS ? `; ${format.allowed}` : '';
  return {
    usage: format.isSwitch === true ? `--[no-]${flag}` : `--${flag} <${value}>`,
    description: `${doc} [${defaultOf(definition)}${choice}]`,
  };
}

/** Longer lists of words go into the description instead of the flag. */
const MAX_WORDS_LENGTH = 32;
const MANY_WORDS = 'name';
/** Names of values, by the last word of the key. */
const valueNames: Readonly<Record<string, string>> = {
  height: 'height',
  port: 'port',
  host: 'host',
  ms: 'ms',
  dir: 'directory',
  from: 'height',
  to: 'height',
};

function valueName(key: string, { format }: Setting): string {
  if (format.value !== undefined) return format.value;
  const { words = [] } = format;
  if (format.allowed.startsWith('one of ')) {
    const joined = words.join('|');
    return joined.length > MAX_WORDS_LENGTH ? MANY_WORDS : joined;
  }
  const last = /[A-Z]?[a-z]+$/.exec(key)?.[0].toLowerCase() ?? '';
  return [valueNames[last] ?? 'value', ...words].join('|');
}

const RELOADABLE = '**Reloadable.**';

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
      definition.isReloadable === true ? `${definition.doc} ${RELOADABLE}` : definition.doc,
    ];
    lines.push(`| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`);
  }
  return lines.join('\n');
}
