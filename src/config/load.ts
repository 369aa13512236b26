import { maskedEndpoint, named, OperatorError, quoted } from '../runtime/index.js';
import { shortened, withoutCredentials, withoutUrlPaths } from '../runtime/index.js';
import { environmentOf, flagOf } from './settings.js';
import type { Settings, ValuesOf } from './settings.js';
import { bare, readEnvironment, readFile } from './sources.js';
import type { Environment } from './sources.js';

/** The source of a value, for `config print`. */
export type Origin = 'default' | 'file' | 'environment' | 'flag';

/** The values of a settings table and their origins, frozen. */
export interface Loaded<S extends Settings> {
  readonly values: ValuesOf<S>;
  readonly origins: Readonly<Record<string, Origin>>;
  /** Where each value comes from, for messages: a flag, a variable, or a key of a file. */
  readonly places: Readonly<Record<string, string>>;
  /** Keys that the file sets and the environment or a flag overrides. */
  readonly overridden: readonly string[];
  /** Variables that describe a Service or a container and were ignored. */
  readonly links: readonly string[];
}

/** Everything that can set a value, weakest first. */
export interface Sources {
  /** Path of a JSON file, if one was given. */
  readonly file: string | undefined;
  readonly environment: Environment;
  /** Flag values by key, as written; several for a repeated flag. Others than those of the settings are left alone. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
}

/**
 * Merges default < file < environment < flag. Each is checked by itself, so a wrong value is told of even where a stronger
 * one hides it. Expected errors: OperatorError `configuration` for a file or the environment, `usage` for a flag; each
 * names where the value came from and what is allowed.
 */
export function loadSettings<S extends Settings>(settings: S, sources: Sources): Loaded<S> {
  const { file: path, environment, flags } = sources;
  const inFile = path === undefined ? new Map<string, unknown>() : readFile(path, settings);
  const { links, variables } = readEnvironment(environment, settings);
  const placesOf: Readonly<Record<Origin, (key: string) => string>> = {
    default: (key) => key,
    file: (key) => `${key} in ${named(path ?? '')}`,
    environment: (key) => `environment variable ${environmentOf(key)}`,
    flag: (key) => `--${flagOf(key, settings[key])}`,
  };
  const written = {
    file: (key: string) => inFile.get(key),
    environment: (key: string) => variables[environmentOf(key)],
    flag: (key: string, isList = false) => {
      const texts = flags.get(key)?.map(bare);
      return isList ? texts?.join() : texts?.at(-1);
    },
  } as const;

  const found = Object.entries(settings).map(([key, { default: unset, format }]) => {
    return { key, format, unset, value: unset };
  });
  const origins = new Map<string, Origin>();
  for (const origin of ['file', 'environment', 'flag'] as const) {
    const wrong: string[] = [];
    for (const each of found) {
      const { format, key, unset } = each;
      const given = written[origin](key, format.isList);
      if (given === undefined) continue;
      each.value = typeof given === 'string' ? format.coerce(given) : given;
      origins.set(key, origin);
      // A text may stand for no value at all, where there may be none.
      if ((each.value === null && unset === null) || format.accepts(each.value)) continue;
      const what = shown(each.value, format.isSensitive);
      wrong.push(`Wrong value for ${placesOf[origin](key)}: ${what} is not ${format.allowed}.`);
    }
    if (wrong.length > 0)
      throw new OperatorError(origin === 'flag' ? 'usage' : 'configuration', wrong.join(' '));
  }

  const originOf = (key: string): Origin => origins.get(key) ?? 'default';
  const forEach = <T>(of: (key: string, value: unknown) => T) =>
    Object.fromEntries(found.map(({ key, value }) => [key, of(key, value)]));
  return frozen({
    values: forEach((_, value) => value) as ValuesOf<S>,
    origins: forEach(originOf),
    places: forEach((key) => placesOf[originOf(key)](key)),
    overridden: [...inFile.keys()].filter((key) => originOf(key) !== 'file'),
    links,
  });
}

function shown(value: unknown, isSensitive = false): string {
  if (typeof value !== 'string') return shortened(withoutUrlPaths(withoutCredentials(JSON.stringify(value))));
  return quoted(withoutCredentials(isSensitive ? maskedEndpoint(value) : value));
}

/** Values by dotted key as nested groups. */
export function nested(flat: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(flat)) {
    const path = key.split('.');
    const name = path.pop() ?? key;
    let group = root;
    for (const part of path) group = (group[part] ??= {}) as Record<string, unknown>;
    group[name] = value;
  }
  return root;
}

/** Freezes a value, however deep. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach(frozen);
  return Object.freeze(value);
}
