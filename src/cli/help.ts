import { flagTable } from '../config/index.js';
import type { Command } from './command.js';

export const PROGRAM = 'flow-collection-indexer';

/** The page that `--help` without a command shows. */
export function overview(commands: readonly Command[], version: string): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  return [
    `${PROGRAM} ${version}: a verified, complete, queryable local index of every Flow collection and transaction.`,
    '',
    `usage: ${PROGRAM} <command> [flags]`,
    '',
    'commands:',
    ...commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`),
    '',
    `${PROGRAM} <command> --help shows the flags of a command. Every key can also stand in a file (--config FILE)`,
    'or in the environment (FCI_…): docs/configuration.md lists them all.',
    '',
  ].join('\n');
}

/** The page that `<command> --help` shows. */
export function commandHelp(command: Command): string {
  const lines = [
    `usage: ${PROGRAM} ${[command.name, command.positionals].filter(Boolean).join(' ')} [flags]`,
    '',
    command.summary,
  ];
  if (command.details !== undefined) lines.push('', command.details);
  if (Object.keys(command.ownFlags).length > 0) lines.push('', 'flags:', flagTable(command.ownFlags));
  if (Object.keys(command.settings).length > 0) {
    lines.push(
      '',
      'configuration:',
      flagTable(command.settings),
      '  --config FILE  Read keys from a JSON file.',
    );
  }
  lines.push('', '  --help  Show this page.', '');
  return lines.join('\n');
}
