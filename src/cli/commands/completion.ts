import { mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { messageOf, named, OperatorError } from '../../runtime/index.js';
import { COMPLETION_FUNCTION, completionFlags, INSTALL, ownValuesOf, shells } from '../arguments/flags.js';
import type { Shell } from '../arguments/flags.js';
import { PROGRAM } from '../arguments/parse.js';
import { wrongUse } from '../command.js';
import type { Command, Run } from '../command.js';
import { completionScripts } from '../completion/completionScripts.js';

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
