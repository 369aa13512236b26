import { formatBytes, MANY_WORDS, SIZE } from './formats.js';
import { environmentOf, flagOf, type Setting, type Settings } from './settings.js';

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
  const choice = format.value === MANY_WORDS ? `; ${format.allowed}` : '';
  return {
    usage: format.isSwitch === true ? `--[no-]${flag}` : `--${flag} <${format.value}>`,
    description: `${doc} [${defaultOf(definition)}${choice}]`,
  };
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
      definition.isReloadable === true ? `${definition.doc} **Reloadable.**` : definition.doc,
    ];
    lines.push(`| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`);
  }
  return lines.join('\n');
}
