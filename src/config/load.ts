import convict from 'convict';
import { maskedEndpoint, named, OperatorError, quoted } from '../runtime/index.js';
import { shortened, withoutCredentials, withoutUrlPaths } from '../runtime/index.js';
import { environmentOf, flagOf, type Settings, type ValuesOf } from './settings.js';
import { bare, readEnvironment, readFile, type Environment } from './sources.js';

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
  /** Flag values by key, as written; several for a repeated flag. Keys that are not settings are ignored. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
}

/** What one source sets, by key. */
interface Layer {
  readonly origin: Origin;
  readonly given: ReadonlyMap<string, unknown>;
  readonly placeOf: (key: string) => string;
}

const UNSET: Layer = { origin: 'default', given: new Map(), placeOf: (key) => key };

/**
 * Merges default < file < environment < flag. Each is checked separately, so a wrong value is reported even if a stronger one
 * overrides it. Expected errors: OperatorError `configuration` for a file or the environment, `usage` for a flag; each names
 * the source of the value and what is allowed.
 */
export function loadSettings<S extends Settings>(settings: S, sources: Sources): Loaded<S> {
  const { file: path, environment, flags } = sources;
  const keys = Object.keys(settings);
  const inFile = path === undefined ? new Map<string, unknown>() : readFile(path, settings);
  const { links, variables } = readEnvironment(environment, settings);
  const byFlag = keys.flatMap((key): [string, unknown][] => {
    const written = flags.get(key)?.map(bare);
    if (written === undefined) return [];
    return [[key, settings[key]?.format.isList === true ? written.join() : written.at(-1)]];
  });
  const layers: readonly Layer[] = [
    { origin: 'file', given: inFile, placeOf: (key) => `${key} in ${named(path ?? '')}` },
    {
      origin: 'environment',
      given: variables,
      placeOf: (key) => `environment variable ${environmentOf(key)}`,
    },
    { origin: 'flag', given: new Map(byFlag), placeOf: (key) => `--${flagOf(key, settings[key])}` },
  ];
  const { config, refused } = convictOf(settings);
  for (const { origin, given, placeOf } of layers) {
    for (const [key, value] of given) config.set(key, value);
    config.validate({ allowed: 'strict' });
    const messages = refused.splice(0).map((key) => {
      const { allowed = '', isSensitive } = settings[key]?.format ?? {};
      return `Wrong value for ${placeOf(key)}: ${shown(config.get(key), isSensitive)} is not ${allowed}.`;
    });
    if (messages.length > 0)
      throw new OperatorError(origin === 'flag' ? 'usage' : 'configuration', messages.join(' '));
  }
  const layerOf = (key: string): Layer => layers.findLast(({ given }) => given.has(key)) ?? UNSET;
  const forEach = <T>(of: (key: string) => T) => Object.fromEntries(keys.map((key) => [key, of(key)]));
  return frozen({
    values: forEach((key) => config.get(key)) as ValuesOf<S>,
    origins: forEach((key) => layerOf(key).origin),
    places: forEach((key) => layerOf(key).placeOf(key)),
    overridden: [...inFile.keys()].filter((key) => layerOf(key).origin !== 'file'),
    links,
  });
}

/** A settings table in convict, and the keys whose values it has refused since they were last read. */
function convictOf(settings: Settings) {
  const refused: string[] = [];
  const entries = Object.entries(settings).map(([key, { default: unset, format }]) => {
    const validate = (value: unknown): void => {
      if (!format.accepts(value)) refused.push(key);
    };
    // convict keeps formats by name, for the whole process.
    const name = `of ${key}`;
    convict.addFormat({ name, validate, coerce: format.coerce });
    return [key, { default: unset, nullable: unset === null, format: name }] as const;
  });
  const schema = nested(Object.fromEntries(entries)) as convict.Schema<Record<string, unknown>>;
  return { config: convict(schema), refused };
}

function shown(value: unknown, isSensitive = false): string {
  if (typeof value !== 'string') return shortened(withoutUrlPaths(withoutCredentials(JSON.stringify(value))));
  return quoted(withoutCredentials(isSensitive ? maskedEndpoint(value) : value));
}

/** Values by dotted key as nested groups; `undefined` in place of `null`. */
export function nested(flat: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(flat)) {
    const path = key.split('.');
    const name = path.pop() ?? key;
    let group = root;
    for (const part of path) group = (group[part] ??= {}) as Record<string, unknown>;
    group[name] = value ?? undefined;
  }
  return root;
}

/** Freezes a value deeply. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach(frozen);
  return Object.freeze(value);
}
