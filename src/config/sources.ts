import { messageOf, named, OperatorError, parseJson, readNamedFile } from '../runtime/index.js';
import { ENVIRONMENT_PREFIX, environmentOf, type Settings } from './settings.js';
import { suggestion } from './suggestion.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The values of a file, by key. `null` and an empty text count as unset. Expected errors: OperatorError `configuration` for a
 * file that cannot be read, is not JSON in UTF-8, or has a key that is unknown or in the wrong place.
 */
export function readFile(path: string, settings: Settings): ReadonlyMap<string, unknown> {
  let content: unknown;
  try {
    content = parseJson(
      new TextDecoder('utf-8', { fatal: true }).decode(readNamedFile(path, { mayBePipe: true })),
    );
  } catch (error) {
    let advice = '';
    if (error instanceof SyntaxError)
      advice =
        ' JSON has no comments (a key that begins with $ is ignored), and no comma after the last entry.';
    // Thrown by the UTF-8 decoder.
    else if (error instanceof TypeError) advice = ' Save it as UTF-8.';
    throw new OperatorError(
      'configuration',
      `Cannot read the configuration file ${named(path)}: ${messageOf(error)}.${advice}`,
      { cause: error },
    );
  }
  return new Map(entriesOf(content, settings, path, ''));
}

/** convict would skip some unknown names, such as `__proto__`, and fail on a group that is not an object. */
function entriesOf(node: unknown, settings: Settings, path: string, prefix: string): [string, unknown][] {
  if (typeof node !== 'object' || node === null || Array.isArray(node)) {
    const what = prefix === '' ? 'The configuration file' : `The key ${prefix.slice(0, -1)} in`;
    throw new OperatorError('configuration', `${what} ${named(path)} must be an object of keys.`);
  }
  const keys = Object.keys(settings);
  return Object.entries(node).flatMap(([name, value]): [string, unknown][] => {
    const key = prefix + name;
    const { format } = (Object.hasOwn(settings, key) ? settings[key] : undefined) ?? {};
    if (format !== undefined) {
      const given = plain(value);
      if (given !== undefined) return given === null || given === '' ? [] : [[key, given]];
      const what = Array.isArray(value) ? 'a list of other things than texts' : 'an object';
      throw new OperatorError(
        'configuration',
        `Wrong value for ${key} in ${named(path)}: ${what} is not ${format.allowed}.`,
      );
    }
    if (keys.some((known) => known.startsWith(`${key}.`))) return entriesOf(value, settings, path, `${key}.`);
    // "$schema", "$comment": for editors and readers.
    if (name.startsWith('$')) return [];
    throw new OperatorError(
      'configuration',
      `Unknown key ${named(key)} in ${named(path)}.${suggestion(key, keys)} ` +
        'docs/configuration.md lists every key.',
    );
  });
}

/**
 * A value as convict takes it, which coerces only texts: a list becomes a text with commas. `undefined` for objects, in which
 * convict would look for keys.
 */
function plain(value: unknown): unknown {
  if (typeof value === 'string') return bare(value);
  if (typeof value !== 'object' || value === null) return value;
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) return undefined;
  return value.length === 0 ? value : value.join();
}

/** Removes blanks, line ends and quotes around a value, which belong to the file or shell it came from. */
export function bare(written: string): string {
  const [, , inner] = /^(["'])(.*)\1$/s.exec(written.trim()) ?? [];
  return (inner ?? written).trim();
}

/**
 * Variables that Kubernetes sets in each pod for a Service, and Docker for a linked container, if these are called `fci…`:
 * recognized by name or, where a key could have that name, by value.
 */
const LINK_NAME =
  /^FCI\w*?_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?|ENV_\w+)$/;
const LINK = /^FCI\w*?(?:_PORT=(?:tcp|udp|sctp):\/\/\S+:\d+|_NAME=\/\S+\/\S+)$/;

/**
 * The values of variables by the key that they set, and the names of those that describe a Service or a container and are not
 * meant for us. An empty one counts as unset. Expected errors: OperatorError `configuration` for any other with our prefix.
 */
export function readEnvironment(
  environment: Environment,
  settings: Settings,
): { readonly variables: ReadonlyMap<string, string>; readonly links: readonly string[] } {
  const known = new Map(Object.keys(settings).map((key) => [environmentOf(key), key]));
  const variables = new Map<string, string>();
  const links: string[] = [];
  for (const [name, written] of Object.entries(environment)) {
    const value = bare(written ?? '');
    if (!name.startsWith(ENVIRONMENT_PREFIX) || value === '') continue;
    const key = known.get(name);
    if ((key === undefined && LINK_NAME.test(name)) || LINK.test(`${name}=${value}`)) links.push(name);
    else if (key !== undefined) variables.set(key, value);
    else throw unknownVariable(name, [...known.keys()]);
  }
  return { variables, links };
}

function unknownVariable(name: string, known: readonly string[]): OperatorError {
  const word = (variable: string): string => variable.slice(ENVIRONMENT_PREFIX.length);
  const close = suggestion(word(name), known.map(word), (found) => ENVIRONMENT_PREFIX + found);
  return new OperatorError(
    'configuration',
    `Unknown environment variable ${named(name)}.${close} Unset it, or see docs/configuration.md for every variable.`,
  );
}
