import { Command as Parser, CommanderError, Option } from 'commander';
import { flagHelp, flagOf, suggestion } from '../../config/index.js';
import type { Setting, Settings } from '../../config/index.js';
import { named, OperatorError, quoted } from '../../runtime/index.js';
import type { Command, Invocation, Terminal } from '../command.js';
import { helpStyle } from './help.js';

export const PROGRAM = 'flow-collection-indexer';

/** The longest path on Linux. */
const MAX_ARGUMENT_LENGTH = 4096;

/** A parsed command line. */
export interface Parsed {
  readonly command: Command;
  readonly invocation: Invocation;
}

/**
 * Parses a command line. Prints help or version itself, and then returns how to exit. Expected errors:
 * OperatorError `usage` for an unknown command or flag, a missing value, an unexpected value, too many words, or
 * one longer than MAX_ARGUMENT_LENGTH.
 */
export function parse(
  commands: readonly Command[],
  args: readonly string[],
  { terminal, version }: { readonly terminal: Terminal; readonly version: string },
): Parsed | 'done' | 'usage' {
  const long = args.find((arg) => arg.length > MAX_ARGUMENT_LENGTH);
  if (long !== undefined) {
    throw usage(
      `The argument ${quoted(long)} is too long: at most ${MAX_ARGUMENT_LENGTH} characters are allowed.`,
    );
  }
  const words = spelled(args);
  const [name = '--help'] = words;
  const names = commands.map((command) => command.name);
  if (!/^-./s.test(name) && name !== 'help' && !names.includes(name)) {
    throw usage(`Unknown command ${quoted(name)}.${suggestion(name, names)} See ${PROGRAM} --help.`);
  }
  let parsed: Parsed | undefined;
  const root = rootParser(terminal, version);
  for (const command of commands) {
    const parser = commandParser(root, command);
    parser.action(() => {
      parsed = { command, invocation: invocationOf(command, parser) };
    });
  }
  try {
    root.parse(words, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (words.length === 0) return 'usage';
    if (error.exitCode !== 0) throw refusal(error, words, commands);
  }
  return parsed ?? 'done';
}

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}

/** Turns `help X` into `X --help`, so that both behave alike, even for an unknown X. */
function spelled([first, ...rest]: readonly string[]): string[] {
  if (first === undefined) return [];
  if (first === '--') return spelled(rest);
  if (first === 'help' && rest[0] !== undefined && !rest[0].startsWith('-')) return [rest[0], '--help'];
  return [first, ...rest];
}

function rootParser(terminal: Terminal, version: string): Parser {
  return new Parser(PROGRAM)
    .description(
      `${PROGRAM} ${version}: a verified, complete, queryable local index of every Flow collection and transaction.\n\n` +
        'Configuration flags can also be set in a file (--config) or the environment (FCI_…): see docs/configuration.md.',
    )
    .usage('<command> [flags]')
    .optionsGroup('Flags:')
    .version(version, '-V, --version', 'Print the version, like the command version.')
    .helpOption('-h, --help', 'Show this page, or a command’s.')
    .helpCommand('help <command>', 'Show the flags of a command.')
    .configureHelp(helpStyle)
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      writeErr: (text) => terminal.err(text),
      getOutHelpWidth: () => widthOf(terminal),
      getErrHelpWidth: () => widthOf(terminal),
      outputError: () => undefined,
    })
    .showSuggestionAfterError(false)
    .exitOverride();
}

/** Used when the terminal's width is not known. */
const DEFAULT_COLUMNS = 80;

function widthOf({ isTerminal, columns }: Terminal): number {
  return (isTerminal ? columns() : 0) || DEFAULT_COLUMNS;
}

function commandParser(root: Parser, { name, summary, details, ...command }: Command): Parser {
  const parser = root
    .command(name)
    .summary(summary)
    .description([summary, details].filter(Boolean).join('\n\n'))
    .usage([command.positionals, '[flags]'].filter(Boolean).join(' '))
    .argument('[words...]')
    .optionsGroup('Flags:');
  addFlags(parser, command.ownFlags, 'Flags:');
  addFlags(parser, command.settings, 'Configuration:');
  if (Object.keys(command.settings).length > 0) {
    const file = new Option('--config <file>', 'Read keys from a JSON file.');
    parser.addOption(file.argParser(readValue('--config', name)).helpGroup('Configuration:'));
  }
  return parser.helpOption('-h, --help', 'Show this page.');
}

/** Keeps every value of a repeated flag. A switch has two flags; help shows one line for both. */
function addFlags(parser: Parser, table: Settings, group: string): void {
  for (const [key, definition] of Object.entries(table)) {
    const { usage: term, description } = flagHelp(key, definition);
    const flag = `--${flagOf(key, definition)}`;
    if (definition.format.isSwitch === true) {
      const shown = Object.assign(new Option(flag, description), { flags: term });
      parser.addOption(shown.helpGroup(group));
      parser.addOption(new Option(`--no-${flag.slice(2)}`).hideHelp());
    } else {
      parser.addOption(
        new Option(term, description).argParser(readValue(flag, parser.name())).helpGroup(group),
      );
    }
  }
}

function readValue(flag: string, command: string) {
  return (value: string, before: readonly string[] | undefined): readonly string[] => {
    if (value === '') throw missingValue(flag, command);
    return [...(before ?? []), value];
  };
}

function missingValue(flag: string, command: string): OperatorError {
  return usage(`${flag} needs a value. See ${PROGRAM} ${command} --help.`);
}

function invocationOf(command: Command, parser: Parser): Invocation {
  const positionals = parser.args;
  const extra = positionals[command.maxPositionals];
  if (extra !== undefined) {
    throw usage(
      `${command.name} does not take the argument ${quoted(extra)}. See ${PROGRAM} ${command.name} --help.`,
    );
  }
  const [word] = positionals;
  if (command.words !== undefined && word !== undefined && !command.words.includes(word)) {
    throw usage(
      `${command.name} does not know ${quoted(word)}.${suggestion(word, command.words)} ` +
        `It takes ${command.words.join(', ')}. See ${PROGRAM} ${command.name} --help.`,
    );
  }
  const written = parser.opts<Readonly<Record<string, readonly string[] | boolean>>>();
  const valuesOf = (table: Settings): ReadonlyMap<string, readonly string[]> =>
    new Map(
      Object.entries(table).flatMap(([key, definition]): [string, readonly string[]][] => {
        const value = written[attributeOf(key, definition)];
        return value === undefined ? [] : [[key, typeof value === 'boolean' ? [String(value)] : value]];
      }),
    );
  const { config } = written;
  return {
    positionals,
    configFile: Array.isArray(config) ? (config as readonly string[]).at(-1) : undefined,
    settingFlags: valuesOf(command.settings),
    ownFlags: valuesOf(command.ownFlags),
  };
}

function attributeOf(key: string, definition: Setting): string {
  return new Option(`--${flagOf(key, definition)}`).attributeName();
}

/** Rewrites commander's errors in our words, with a suggestion and where to look. */
function refusal(
  { code, message }: CommanderError,
  args: readonly string[],
  commands: readonly Command[],
): OperatorError {
  const [name = ''] = args;
  const command = commands.find((candidate) => candidate.name === name);
  const help = `See ${PROGRAM} ${command === undefined ? '' : `${name} `}--help.`;
  const flag = /'(?<flag>-[^\s=']*)/u.exec(message)?.groups?.['flag'] ?? '';
  if (code === 'commander.optionMissingArgument') return missingValue(flag, name);
  if (code !== 'commander.unknownOption') return usage(`${message.replace(/^error: /, '')}. ${help}`);
  const tables = command === undefined ? [] : Object.entries({ ...command.settings, ...command.ownFlags });
  const known = tables.find(([key, definition]) => `--${flagOf(key, definition)}` === flag);
  if (known?.[1].format.isSwitch === true) {
    return usage(`${flag} takes no value: write ${flag} or --no-${flag.slice(2)}.`);
  }
  const flags = [...tables.map(([key, definition]) => flagOf(key, definition)), 'config', 'help'];
  const of = command === undefined ? '' : ` for ${name}`;
  return usage(
    `Unknown flag ${named(flag)}${of}.${suggestion(flag.replace(/^--?(?:no-)?/, ''), flags, (word) => `--${word}`)} ${help}`,
  );
}
