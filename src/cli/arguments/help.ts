import type { Command, Help } from 'commander';

/** Longer terms get a line of their own, to leave room for their descriptions. */
const MAX_TERM_COLUMNS = 26;
/** With less room than this beside the terms, descriptions go below them. */
const MIN_TEXT_COLUMNS = 40;
const INDENT = 2;
const GAP = 2;

/** Help layout: terms left, descriptions right, wrapped to the terminal's width without breaking words. */
export const helpStyle: Partial<Help> = {
  minWidthToWrap: 1,
  subcommandTerm: (command: Command) => command.name(),
  commandUsage(this: Help, command: Command): string {
    const usage = [command.parent?.name(), command.name(), command.usage()].filter(Boolean).join(' ');
    const indent = 'usage: '.length;
    return this.boxWrap(usage, (this.helpWidth ?? 80) - indent).replaceAll('\n', `\n${' '.repeat(indent)}`);
  },
  styleTitle: (title) => title.toLowerCase(),
  formatItem: (term: string, widest: number, description: string, helper: Help): string => {
    const termColumns = Math.min(widest, MAX_TERM_COLUMNS);
    const columns = helper.helpWidth ?? 80;
    const isBeside = columns - INDENT - termColumns - GAP >= MIN_TEXT_COLUMNS;
    const indent = ' '.repeat(isBeside ? INDENT + termColumns + GAP : 3 * INDENT);
    const lines = helper.boxWrap(description, columns - indent.length).replaceAll('\n', `\n${indent}`);
    const fits = isBeside && term.length <= termColumns;
    const shown = ' '.repeat(INDENT) + term;
    return fits ? shown.padEnd(indent.length) + lines : `${shown}\n${indent}${lines}`;
  },
};
