import { Argument, Command as Parser, CommanderError, Option, type Help } from 'commander';
import { flagHelp, flagOf, loadSettings, suggestion, type Settings } from '../../config/index.js';
import { named, programVersion, quoted, type OperatorError } from '../../runtime/index.js';
import { shownPositionals, wrongUse, type Command, type Invocation, type Terminal } from '../command.js';

export const PROGRAM = 'flow-collection-indexer';

/** The longest path on Linux. */
const MAX_ARGUMENT_LENGTH = 4096;

/**
 * Parses a command line. Prints help or version itself, and then returns how to exit. Expected errors: OperatorError `usage` for
 * an unknown command or flag, a missing, wrong or unexpected value, too many words, or one longer than MAX_ARGUMENT_LENGTH.
 */
export function parse(
  commands: readonly Command[],
  args: readonly string[],
  terminal: Terminal,
): { readonly command: Command; readonly invocation: Invocation } | 'done' | 'usage' {
  const long = args.find((arg) => arg.length > MAX_ARGUMENT_LENGTH);
  if (long !== undefined)
    throw wrongUse(
      `The argument ${quoted(long)} is too long: at most ${MAX_ARGUMENT_LENGTH} characters are allowed.`,
    );
  let parsed: { readonly command: Command; readonly invocation: Invocation } | undefined;
  const root = rootParser(terminal);
  for (const command of commands) {
    const parser = commandParser(root, command);
    parser.action(() => {
      parsed = { command, invocation: invocationOf(parser, command) };
    });
  }
  // `help X` is `X --help`, so that both behave alike, even for an unknown X.
  const isHelp = args[0] === 'help' && args[1] !== undefined && !args[1].startsWith('-');
  const words = isHelp ? [args[1] ?? '', '--help'] : args;
  const [name = '--help'] = words;
  if (!/^-./s.test(name) && name !== 'help' && !commands.some((command) => command.name === name))
    throw unknownCommand(name, root);
  try {
    root.parse(words, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 'done' : 'usage';
  }
  return parsed ?? 'done';
}

function refusal(message: string, parser: Parser): OperatorError {
  const names = [parser.parent?.name(), parser.name()].filter(Boolean);
  return wrongUse(`${message} See ${names.join(' ')} --help.`);
}

function rootParser(terminal: Terminal): Parser {
  const root = new Parser(PROGRAM)
    .description(
      `${PROGRAM} ${programVersion}: a verified, complete, queryable local index of every Flow collection and transaction.\n\n` +
        'Configuration flags can also be set in a file (--config) or the environment (FCI_…): see docs/configuration.md.',
    )
    .usage('<command> [flags]')
    .optionsGroup('Flags:')
    .version(programVersion, '-V, --version', 'Print the version, like the command version.')
    .helpOption('-h, --help', 'Show this page, or a command’s.')
    .helpCommand('help <command>', 'Show the flags of a command.')
    .configureHelp(helpStyle)
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      writeErr: (text) => terminal.err(text),
      getOutHelpWidth: terminal.columns,
      getErrHelpWidth: terminal.columns,
      outputError: () => undefined,
    });
  return root.exitOverride((error) => refuse(error, root));
}

function commandParser(root: Parser, command: Command): Parser {
  const { name, summary, details } = command;
  const parser = root
    .command(name)
    .summary(summary)
    .description([summary, details].filter(Boolean).join('\n\n'))
    .usage([...shownPositionals(command), '[flags]'].join(' '))
    .helpOption('-h, --help', 'Show this page.');
  for (const [index, words] of command.positionals.entries()) {
    const argument = new Argument(`[${index}]`);
    parser.addArgument(typeof words === 'string' ? argument : argument.argParser(oneOf(words, parser)));
  }
  addFlags(parser, command.ownFlags, 'Flags:');
  addFlags(parser, command.settings, 'Configuration:');
  if (Object.keys(command.settings).length > 0) {
    const file = new Option('--config <file>', 'Read keys from a JSON file.');
    parser.addOption(file.argParser(readValue('--config', parser)).helpGroup('Configuration:'));
  }
  return parser.exitOverride((error) => refuse(error, parser));
}

function oneOf(words: readonly string[], parser: Parser) {
  return (word: string): string => {
    if (words.includes(word)) return word;
    const about = `${parser.name()} does not know ${quoted(word)}.${suggestion(word, words)}`;
    throw refusal(`${about} It takes ${words.join(', ')}.`, parser);
  };
}

/** A switch has two flags; help shows one line for both. Values are kept by the key that they set. */
function addFlags(parser: Parser, table: Settings, group: string): void {
  for (const [key, setting] of Object.entries(table)) {
    const { usage: term, description } = flagHelp(key, setting);
    const flag = flagOf(key, setting);
    const isSwitch = setting.format.isSwitch === true;
    const on = Object.assign(new Option(`--${flag}`, description), { flags: term });
    const options = isSwitch
      ? [on, new Option(`--no-${flag}`).hideHelp()]
      : [new Option(term, description).argParser(readValue(`--${flag}`, parser))];
    for (const option of options)
      parser.addOption(Object.assign(option.helpGroup(group), { attributeName: () => key }));
  }
}

function readValue(flag: string, parser: Parser) {
  return (value: string, before: readonly string[] = []): readonly string[] => {
    if (value === '') throw refusal(`${flag} needs a value.`, parser);
    return [...before, value];
  };
}

function invocationOf(parser: Parser, { ownFlags }: Command): Invocation {
  const { config, ...given } = parser.opts<Readonly<Record<string, readonly string[] | boolean>>>();
  const written = new Map(
    Object.entries(given).map(([key, value]) => [key, typeof value === 'boolean' ? [String(value)] : value]),
  );
  const configFile = Array.isArray(config) ? (config as readonly string[]).at(-1) : undefined;
  const { values: flags } = loadSettings(ownFlags, { file: undefined, environment: {}, flags: written });
  return { positionals: parser.args, configFile, written, flags };
}

/** Rewords commander's refusals, with a suggestion and where to look; help and version pass through. */
function refuse(error: CommanderError, parser: Parser): never {
  const { code, message } = error;
  const [, flag = ''] = /'(-[^\s=']*)/u.exec(message) ?? [];
  const { args, registeredArguments } = parser;
  switch (code) {
    case 'commander.unknownCommand':
      throw unknownCommand(args[0] ?? '', parser);
    case 'commander.unknownOption':
      throw unknownFlag(flag, parser);
    case 'commander.optionMissingArgument':
      throw refusal(`${flag} needs a value.`, parser);
    case 'commander.excessArguments': {
      const extra = quoted(args[registeredArguments.length] ?? '');
      throw refusal(`${parser.name()} does not take the argument ${extra}.`, parser);
    }
    default:
      throw error;
  }
}

function unknownCommand(name: string, root: Parser): OperatorError {
  const names = root.commands.map((command) => command.name());
  return refusal(`Unknown command ${quoted(name)}.${suggestion(name, names)}`, root);
}

function unknownFlag(flag: string, parser: Parser): OperatorError {
  const flags = parser.options.map(({ long }) => long ?? '');
  const word = flag.replace(/^--?(?:no-)?/, '');
  if (flags.includes(flag)) return wrongUse(`${flag} takes no value: write --${word} or --no-${word}.`);
  const known = [...flags.filter((each) => !each.startsWith('--no-')), '--help'];
  const words = known.map((each) => each.slice('--'.length));
  const close = suggestion(word, words, (each) => `--${each}`);
  const where = parser.parent === null ? '' : ` for ${parser.name()}`;
  return refusal(`Unknown flag ${named(flag)}${where}.${close}`, parser);
}

/** Longer terms get a line of their own, to leave room for their descriptions. */
const MAX_TERM_COLUMNS = 26;
/** With less room than this beside the terms, descriptions go below them. */
const MIN_TEXT_COLUMNS = 40;
const INDENT = 2;
const GAP = 2;

/** Help layout: terms left, descriptions right, wrapped to the terminal's width without breaking words. */
const helpStyle: Partial<Help> = {
  minWidthToWrap: 1,
  subcommandTerm: (command: Parser) => command.name(),
  commandUsage(this: Help, command: Parser): string {
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
