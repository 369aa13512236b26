import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { root } from './files.js';

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Readonly<Record<string, string>>;
};

/** The text of a script, with that of its neighbours: flags may be read in a file that it shares with them. */
function textAround(path: string): string {
  const folder = dirname(join(root, path));
  return [folder, join(folder, 'lib')]
    .filter((place) => existsSync(place))
    .flatMap((place) => readdirSync(place).map((name) => join(place, name)))
    .filter((file) => ['.ts', '.mjs'].includes(extname(file)))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
}

function unknownFlags(path: string, args: readonly string[]): string[] {
  const text = textAround(path);
  return args
    .filter((arg) => /^--[a-z]/.test(arg))
    .map((arg) => arg.slice(2).split('=')[0] ?? '')
    .filter((flag) => !text.includes(`'${flag}'`) && !new RegExp(`\\b${flag}: \\{`).test(text))
    .map((flag) => `nothing in ${dirname(path)} reads --${flag}`);
}

export function complaintsAgainstFile(path: string, args: readonly string[]): string[] {
  if (!existsSync(join(root, path))) return [`there is no ${path}`];
  return unknownFlags(path, args);
}

export function complaintsAgainstPaths(paths: readonly string[]): string[] {
  return paths.filter((path) => !existsSync(join(root, path))).map((path) => `there is no ${path}`);
}

const npmCommands = [
  ...['ci', 'test', 'install', 'pack', 'audit', 'view', 'publish', 'version', 'uninstall'],
  ...['update', 'prune', 'sbom'],
];

export function complaintsAgainstNpm([command = '', ...rest]: readonly string[]): string[] {
  if (command !== 'run') return npmCommands.includes(command) ? [] : [`npm ${command} is not known here`];
  const [name = '', ...args] = rest.filter((word) => !['--silent', '-s', '--'].includes(word));
  // Any script.
  if (name === '') return [];
  const script = scripts[name];
  if (script === undefined) return [`package.json has no script ${name}`];
  const [path] = /(?:scripts|test)\/[\w/.-]+\.(?:ts|mjs)/.exec(script) ?? [];
  if (script.includes('vitest run')) return complaintsAgainstPaths(args);
  return path === undefined ? [] : complaintsAgainstFile(path, args);
}
