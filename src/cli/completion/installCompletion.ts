import { mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { messageOf, named, OperatorError } from '../../runtime/index.js';
import { COMPLETION_FUNCTION, INSTALL, shells } from '../arguments/flags.js';
import type { Shell } from '../arguments/flags.js';
import { PROGRAM } from '../arguments/parse.js';

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
    own: (environment) =>
      join(
        pathIn(environment, 'BASH_COMPLETION_USER_DIR') ?? join(dataHome(environment), 'bash-completion'),
        'completions',
        PROGRAM,
      ),
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
    own: (environment) =>
      join(
        pathIn(environment, 'XDG_CONFIG_HOME') ?? join(home(environment), '.config'),
        'fish/completions',
        `${PROGRAM}.fish`,
      ),
    hint: () => 'fish looks there by itself.',
  },
};

/** The shell of the user. Expected errors: OperatorError (`usage`) when it is unknown or not supported. */
export function shellOf(environment: Environment): Shell {
  const path = environment['SHELL'] ?? '';
  const shell = shells.find((name) => name === basename(path));
  if (shell !== undefined) return shell;
  const why = path === '' ? 'SHELL is not set' : `SHELL is ${named(path)}`;
  throw new OperatorError(
    'usage',
    `Say for which shell, because ${why}: ${PROGRAM} completion ${INSTALL} ${shells.join(', ')}.`,
  );
}

/** Writes the script to where the shell looks. Returns what to tell the user. Expected errors: OperatorError (`storage`). */
export async function installCompletion(
  shell: Shell,
  script: string,
  options: { readonly forEveryone: boolean; readonly environment: Environment },
): Promise<string> {
  const { system, own, hint } = places[shell];
  const path = options.forEveryone ? join(SYSTEM_FOLDER, system) : own(options.environment);
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, script);
  } catch (error) {
    throw new OperatorError(
      'storage',
      `Cannot write the completion to ${named(path)}: ${messageOf(error)}. Write it elsewhere: ${PROGRAM} completion ${shell} > FILE.`,
    );
  }
  const left = options.forEveryone && shell !== 'bash' ? '' : `${hint(path)}\n`;
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
    throw new OperatorError(
      'usage',
      'HOME is not set, and this user has no home directory. Set HOME, or print the script and write it yourself.',
    );
  }
}

function dataHome(environment: Environment): string {
  return pathIn(environment, 'XDG_DATA_HOME') ?? join(home(environment), '.local/share');
}
