import { mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { flagOf } from '../../config/index.js';
import type { Setting, Settings } from '../../config/index.js';
import { messageOf, named, OperatorError } from '../../runtime/index.js';
import { COMPLETION_FUNCTION, completionFlags, INSTALL, ownValuesOf, shells } from '../arguments/flags.js';
import type { Shell } from '../arguments/flags.js';
import { PROGRAM } from '../arguments/parse.js';
import { wrongUse } from '../command.js';
import type { Command, Run } from '../command.js';

/** `completion`: prints a shell's script for these commands, or writes it to where the shell looks for it. */
export function completionOf(commands: readonly Command[]): Run {
  return async (invocation, terminal) => {
    const { environment } = terminal;
    const { system } = ownValuesOf(completionFlags, invocation);
    const [first, second] = invocation.positionals;
    const isInstalled = first === INSTALL;
    const word = isInstalled ? (second ?? basename(environment['SHELL'] ?? '')) : first;
    const shell = shells.find((name) => name === word);
    if (shell === undefined && isInstalled && second === undefined) throw unknownShell(environment);
    if (shell === undefined || (!isInstalled && (second !== undefined || system)))
      throw wrongUse(
        `Say for which shell: ${PROGRAM} completion ${shells.join(', ')}, or ${PROGRAM} completion ${INSTALL} [--system] and one of them.`,
      );
    const script = completionScripts[shell](commands);
    terminal.out(isInstalled ? await installed(shell, script, system, environment) : script);
    return 'done';
  };
}

function unknownShell({ SHELL: path = '' }: Environment): OperatorError {
  const why = path === '' ? 'SHELL is not set' : `SHELL is ${named(path)}`;
  return wrongUse(
    `Say for which shell, because ${why}: ${PROGRAM} completion ${INSTALL} ${shells.join(', ')}.`,
  );
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Where a shell looks for completions, by default or after a line in its start-up file. */
interface Place {
  /** Below /usr/local/share, for every user. */
  readonly system: string;
  /** For the user alone. */
  readonly own: (environment: Environment) => string;
  /** What the user may still have to do. */
  readonly hint: (path: string) => string;
}

const SYSTEM_FOLDER = '/usr/local/share';

const places: Readonly<Record<Shell, Place>> = {
  bash: {
    system: `bash-completion/completions/${PROGRAM}`,
    own: (environment) => {
      const dataHome = () => pathIn(environment, 'XDG_DATA_HOME') ?? join(home(environment), '.local/share');
      const folder = pathIn(environment, 'BASH_COMPLETION_USER_DIR') ?? join(dataHome(), 'bash-completion');
      return join(folder, 'completions', PROGRAM);
    },
    hint: (path) =>
      `The bash-completion package loads it; without that package, add to ~/.bashrc: source ${path}`,
  },
  zsh: {
    system: `zsh/site-functions/${COMPLETION_FUNCTION}`,
    own: (environment) =>
      join(pathIn(environment, 'ZDOTDIR') ?? home(environment), '.zfunc', COMPLETION_FUNCTION),
    hint: (path) =>
      `If ${dirname(path)} is not in your fpath yet, add to ~/.zshrc: fpath+=(${dirname(path)}); autoload -U compinit && compinit`,
  },
  fish: {
    system: `fish/vendor_completions.d/${PROGRAM}.fish`,
    own: (environment) => {
      const folder = pathIn(environment, 'XDG_CONFIG_HOME') ?? join(home(environment), '.config');
      return join(folder, 'fish/completions', `${PROGRAM}.fish`);
    },
    hint: () => 'fish looks there by itself.',
  },
};

/** Writes the script to where the shell looks. Returns what to tell the user. Expected errors: OperatorError (`storage`). */
async function installed(
  shell: Shell,
  script: string,
  forEveryone: boolean,
  environment: Environment,
): Promise<string> {
  const { system, own, hint } = places[shell];
  const path = forEveryone ? join(SYSTEM_FOLDER, system) : own(environment);
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, script);
  } catch (error) {
    throw new OperatorError(
      'storage',
      `Cannot write the completion to ${named(path)}: ${messageOf(error)}. Write it elsewhere: ${PROGRAM} completion ${shell} > FILE.`,
    );
  }
  const left = forEveryone && shell !== 'bash' ? '' : `${hint(path)}\n`;
  return `Wrote ${path}. New ${shell} sessions use it.\n${left}`;
}

/** Paths that are empty or relative count as not set, as the XDG base directories have it. */
function pathIn(environment: Environment, name: string): string | undefined {
  const path = environment[name] ?? '';
  return isAbsolute(path) ? path : undefined;
}

function home(environment: Environment): string {
  const given = pathIn(environment, 'HOME');
  if (given !== undefined) return given;
  try {
    return userInfo().homedir;
  } catch {
    throw wrongUse(
      'HOME is not set, and this user has no home directory. Set HOME, or print the script and write it yourself.',
    );
  }
}

/** A flag to complete. */
interface Flag {
  /** Without dashes. */
  readonly name: string;
  readonly doc: string;
  readonly value: 'none' | 'file' | 'other' | readonly string[];
}

/** The script of each shell that completes commands and flags, generated from the same tables as the help. */
const completionScripts: Readonly<Record<Shell, (commands: readonly Command[]) => string>> = {
  bash,
  zsh,
  fish,
};

function flagsOf({ settings, ownFlags }: Command): readonly Flag[] {
  const tables: Settings = { ...ownFlags, ...settings };
  const config: readonly Flag[] =
    Object.keys(settings).length === 0
      ? []
      : [{ name: 'config', doc: 'Read keys from a JSON file.', value: 'file' }];
  return [
    ...Object.entries(tables).flatMap(([key, definition]) => flagsOfSetting(key, definition)),
    ...config,
    { name: 'help', doc: 'Show the flags of this command.', value: 'none' },
  ];
}

function flagsOfSetting(key: string, definition: Setting): readonly Flag[] {
  const { doc, format } = definition;
  const name = flagOf(key, definition);
  if (format.isSwitch === true) {
    return [
      { name, doc, value: 'none' },
      { name: `no-${name}`, doc, value: 'none' },
    ];
  }
  return [
    { name, doc, value: format.words ?? (/\b(?:file|directory)\b/.test(format.allowed) ? 'file' : 'other') },
  ];
}

/** The words that a command takes first, where only a few are allowed. */
function wordsOf({ positionals: [first] }: Command): readonly string[] {
  return typeof first === 'object' ? first : [];
}

/** Words to complete in place of a command. */
const pages = ['help', 'version', '--help', '--version'] as const;

function bash(commands: readonly Command[]): string {
  const cases = commands.flatMap((command) => [
    ...(wordsOf(command).length === 0 ? [] : [bashCase(`${command.name}/${command.name}`, wordsOf(command))]),
    ...flagsOf(command).flatMap(({ name, value }) =>
      value === 'none' ? [] : [bashCase(`${command.name}/--${name}`, typeof value === 'string' ? [] : value)],
    ),
    bashCase(
      `${command.name}/*`,
      flagsOf(command).map(({ name }) => `--${name}`),
    ),
  ]);
  const names = commands.map(({ name }) => name);
  return `${COMPLETION_FUNCTION}() {
  local words=''
  case "$COMP_CWORD \${COMP_WORDS[1]}/\${COMP_WORDS[COMP_CWORD-1]}" in
    '1 '*) words='${[...names, ...pages].join(' ')}' ;;
    *' help/help') words='${names.join(' ')}' ;;
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F ${COMPLETION_FUNCTION} ${PROGRAM}
`;
}

function bashCase(place: string, words: readonly string[]): string {
  const pattern = place.endsWith('/*') ? `*' ${place.slice(0, -1)}'*` : `*' ${place}'`;
  return `    ${pattern}) words='${words.join(' ')}' ;;`;
}

function zsh(commands: readonly Command[]): string {
  const described = commands.map(({ name, summary }) => `    ${single(`${name}:${summary}`)}`);
  const cases = commands.map((command) => {
    const words = wordsOf(command);
    const word = words.length === 0 ? "'*::word:_files'" : single(`1:word:(${words.join(' ')})`);
    const specs = [...flagsOf(command).map(zshSpec), word];
    return `    ${command.name}) _arguments ${specs.join(' ')} ;;`;
  });
  return `#compdef ${PROGRAM}
${COMPLETION_FUNCTION}() {
  local -a commands=(
${described.join('\n')}
    'help:Show the flags of a command.' 'version:Print the version.'
  )
  if (( CURRENT == 2 )) || [[ \${words[2]} == help ]]; then
    _describe command commands
    return
  fi
  local command=\${words[2]}
  shift words
  (( CURRENT -= 1 ))
  case $command in
${cases.join('\n')}
  esac
}
# Loaded from a file of its name it has to complete at once; sourced, it has to be made known.
if [[ \${funcstack[1]} == ${COMPLETION_FUNCTION} ]]; then ${COMPLETION_FUNCTION} "$@"; else compdef ${COMPLETION_FUNCTION} ${PROGRAM}; fi
`;
}

function zshSpec({ name, doc, value }: Flag): string {
  const about = `[${doc.replaceAll(/[[\]\\:]/g, String.raw`\$&`)}]`;
  const argument =
    value === 'none'
      ? ''
      : value === 'file'
        ? ':file:_files'
        : value === 'other'
          ? ':value:'
          : `:word:(${value.join(' ')})`;
  return single(`*--${name}${about}${argument}`);
}

function fish(commands: readonly Command[]): string {
  const lines = commands.flatMap((command) => {
    const words = wordsOf(command);
    const within = `-n '__fish_seen_subcommand_from ${command.name}'`;
    return [
      `-f -n __fish_use_subcommand -a ${command.name} -d ${fishQuoted(command.summary)}`,
      ...(words.length === 0 ? [] : [`-f ${within} -a '${words.join(' ')}'`]),
      ...flagsOf(command).map(
        ({ name, doc, value }) => `${within} -l ${name}${fishValue(value)} -d ${fishQuoted(doc)}`,
      ),
    ];
  });
  return [
    ...lines,
    `-f -n __fish_use_subcommand -a 'help version'`,
    `-f -n '__fish_seen_subcommand_from help' -a '${commands.map(({ name }) => name).join(' ')}'`,
  ]
    .map((line) => `complete -c ${PROGRAM} ${line}\n`)
    .join('');
}

function fishValue(value: Flag['value']): string {
  if (value === 'none') return '';
  if (value === 'file') return ' -r -F';
  return value === 'other' ? ' -x' : ` -x -a '${value.join(' ')}'`;
}

/** Quotes a text as one word of bash or zsh. */
function single(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}
