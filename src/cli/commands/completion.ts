import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { flagOf, type Setting } from '../../config/index.js';
import { messageOf, named, OperatorError } from '../../runtime/index.js';
import { COMPLETION_FUNCTION, INSTALL, shells } from '../arguments/flags.js';
import type { completionFlags, Shell } from '../arguments/flags.js';
import { PROGRAM } from '../arguments/parse.js';
import { wrongUse, type Command, type Run, type Terminal } from '../command.js';
import { writeWhole } from '../output/wholeFile.js';

/** `completion`: prints a shell's script for these commands, or writes it to where the shell looks for it. */
export function completionOf(commands: readonly Command[]): Run<typeof completionFlags> {
  return async ({ flags: { system }, positionals: [first, second] }, terminal) => {
    const { environment } = terminal;
    const isInstalled = first === INSTALL;
    const { SHELL: path = '' } = environment;
    const word = isInstalled ? (second ?? basename(path)) : first;
    const shell = shells.find((name) => name === word);
    if (shell === undefined && isInstalled && second === undefined) {
      const why = path === '' ? 'SHELL is not set' : `SHELL is ${named(path)}`;
      throw wrongUse(
        `Say for which shell, because ${why}: ${PROGRAM} completion ${INSTALL} ${shells.join(', ')}.`,
      );
    }
    if (shell === undefined || (!isInstalled && (second !== undefined || system)))
      throw wrongUse(
        `Say for which shell: ${PROGRAM} completion ${shells.join(', ')}, or ${PROGRAM} completion ${INSTALL} [--system] and one of them.`,
      );
    const script = { bash, zsh, fish }[shell](commands.map(completed));
    if (!isInstalled) {
      terminal.out(script);
      return 'done';
    }
    const { system: forEveryone, own, hint } = places[shell];
    const place = system ? join(SYSTEM_FOLDER, forEveryone) : ownPath(own, environment);
    try {
      await mkdir(dirname(place), { recursive: true });
      await writeWhole(place, script);
    } catch (error) {
      throw new OperatorError(
        'storage',
        `Cannot write the completion to ${named(place)}: ${messageOf(error)}. Write it elsewhere: ${PROGRAM} completion ${shell} > FILE.`,
      );
    }
    const left = system && shell !== 'bash' ? '' : `${hint(place)}\n`;
    terminal.out(`Wrote ${place}. New ${shell} sessions use it.\n${left}`);
    return 'done';
  };
}

/** Where a shell looks for completions, by default or after a line in its start-up file. */
interface Place {
  /** Below /usr/local/share, for every user. */
  readonly system: string;
  /** For the user alone: below the folder that the first of these variables names. HOME is the last. */
  readonly own: readonly (readonly [variable: string, path: string])[];
  /** What the user may still have to do. */
  readonly hint: (path: string) => string;
}

const SYSTEM_FOLDER = '/usr/local/share';

const places: Readonly<Record<Shell, Place>> = {
  bash: {
    system: `bash-completion/completions/${PROGRAM}`,
    own: [
      ['BASH_COMPLETION_USER_DIR', `completions/${PROGRAM}`],
      ['XDG_DATA_HOME', `bash-completion/completions/${PROGRAM}`],
      ['HOME', `.local/share/bash-completion/completions/${PROGRAM}`],
    ],
    hint: (path) =>
      `The bash-completion package loads it; without that package, add to ~/.bashrc: source ${path}`,
  },
  zsh: {
    system: `zsh/site-functions/${COMPLETION_FUNCTION}`,
    own: ['ZDOTDIR', 'HOME'].map((variable) => [variable, `.zfunc/${COMPLETION_FUNCTION}`]),
    hint: (path) =>
      `If ${dirname(path)} is not in your fpath yet, add to ~/.zshrc: fpath+=(${dirname(path)}); autoload -U compinit && compinit`,
  },
  fish: {
    system: `fish/vendor_completions.d/${PROGRAM}.fish`,
    own: [
      ['XDG_CONFIG_HOME', `fish/completions/${PROGRAM}.fish`],
      ['HOME', `.config/fish/completions/${PROGRAM}.fish`],
    ],
    hint: () => 'fish looks there by itself.',
  },
};

/** Folders that are empty or relative count as not set, as the XDG base directory specification says. */
function ownPath(own: Place['own'], environment: Terminal['environment']): string {
  for (const [variable, path] of own) {
    const folder = environment[variable] ?? '';
    if (isAbsolute(folder)) return join(folder, path);
  }
  try {
    return join(userInfo().homedir, own.at(-1)?.[1] ?? '');
  } catch {
    throw wrongUse(
      'HOME is not set, and this user has no home directory. Set HOME, or print the script and write it yourself.',
    );
  }
}

/** `name`: without dashes. */
type Flag = Record<'name' | 'doc', string> & {
  readonly value: 'none' | 'file' | 'other' | readonly string[];
};
type Completed = ReturnType<typeof completed>;

/** A command as the shells complete it, from the tables that the help is generated from. */
function completed({ name, ownFlags, positionals: [first], settings, summary }: Command) {
  const flags = Object.entries<Setting>({ ...ownFlags, ...settings }).flatMap(([key, setting]): Flag[] => {
    const { doc, format } = setting;
    const flag = flagOf(key, setting);
    if (format.isSwitch === true)
      return [flag, `no-${flag}`].map((each) => ({ name: each, doc, value: 'none' }));
    const isFile = /\b(?:file|directory)\b/.test(format.allowed);
    return [{ name: flag, doc, value: format.words ?? (isFile ? 'file' : 'other') }];
  });
  if (Object.keys(settings).length > 0)
    flags.push({ name: 'config', doc: 'Read keys from a JSON file.', value: 'file' });
  flags.push({ name: 'help', doc: 'Show the flags of this command.', value: 'none' });
  // The words that it takes first, where only a few are allowed.
  const words = typeof first === 'object' ? first : [];
  return { name, summary, words, flags };
}

function bash(commands: readonly Completed[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  const offer = (place: string, words: readonly string[]) => `    ${place}) words='${words.join(' ')}' ;;\n`;
  const cases = commands.flatMap(({ flags, name: command, words }) => [
    words.length === 0 ? '' : offer(`*' ${command}/${command}'`, words),
    ...flags.map(({ name, value }) =>
      value === 'none' ? '' : offer(`*' ${command}/--${name}'`, typeof value === 'string' ? [] : value),
    ),
    offer(
      `*' ${command}/'*`,
      flags.map(({ name }) => `--${name}`),
    ),
  ]);
  return `${COMPLETION_FUNCTION}() {
  local words=''
  case "$COMP_CWORD \${COMP_WORDS[1]}/\${COMP_WORDS[COMP_CWORD-1]}" in
    '1 '*) words='${names} help version --help --version' ;;
    *' help/help') words='${names}' ;;
${cases.join('')}  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F ${COMPLETION_FUNCTION} ${PROGRAM}
`;
}

function zsh(commands: readonly Completed[]): string {
  const described = commands.map(({ name, summary }) => `    ${quotedWord(`${name}:${summary}`)}`);
  const cases = commands.map(({ flags, name: command, words }) => {
    const specs = flags.map(({ doc, name, value }) => {
      const taken = { none: '', file: ':file:_files', other: ':value:' };
      const argument = typeof value === 'string' ? taken[value] : `:word:(${value.join(' ')})`;
      return quotedWord(`*--${name}[${doc.replaceAll(/[[\]\\:]/g, String.raw`\$&`)}]${argument}`);
    });
    const word = words.length === 0 ? "'*::word:_files'" : quotedWord(`1:word:(${words.join(' ')})`);
    return `    ${command}) _arguments ${specs.join(' ')} ${word} ;;`;
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

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ flags, name: command, summary, words }) => {
    const within = `-n '__fish_seen_subcommand_from ${command}'`;
    return [
      `-f -n __fish_use_subcommand -a ${command} -d ${quotedWord(summary)}`,
      ...(words.length === 0 ? [] : [`-f ${within} -a '${words.join(' ')}'`]),
      ...flags.map(({ doc, name, value }) => {
        const taken = { none: '', file: ' -r -F', other: ' -x' };
        const argument = typeof value === 'string' ? taken[value] : ` -x -a '${value.join(' ')}'`;
        return `${within} -l ${name}${argument} -d ${quotedWord(doc)}`;
      }),
    ];
  });
  const names = commands.map(({ name }) => name).join(' ');
  lines.push(
    `-f -n __fish_use_subcommand -a 'help version'`,
    `-f -n '__fish_seen_subcommand_from help' -a '${names}'`,
  );
  return lines.map((line) => `complete -c ${PROGRAM} ${line}\n`).join('');
}

function quotedWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
