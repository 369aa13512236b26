import convict from 'convict';
import { maskedEndpoint, messageOf, named, OperatorError, quoted } from '../runtime/index.js';
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
  /** Flag values by key, as written; several for a repeated flag. Others than those of the settings are left alone. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
}

type Config = convict.Config<Record<string, unknown>>;

/**
 * Merges default < file < environment < flag. Each is checked by itself, so a wrong value is told of even where a stronger
 * one hides it. Expected errors: OperatorError `configuration` for a file or the environment, `usage` for a flag; each
 * names where the value came from and what is allowed.
 */
export function loadSettings<S extends Settings>(settings: S, sources: Sources): Loaded<S> {
  const { file: path, environment, flags } = sources;
  const schema = schemaOf(settings);
  const inFile = path === undefined ? new Map<string, unknown>() : readFile(path, settings);
  const { links, variables } = readEnvironment(environment, settings);
  const keys = Object.keys(settings);
  const placesOf: Readonly<Record<Origin, (key: string) => string>> = {
    default: (key) => key,
    file: (key) => `${key} in ${named(path ?? '')}`,
    environment: (key) => `environment variable ${environmentOf(key)}`,
    flag: (key) => `--${flagOf(key, settings[key])}`,
  };
  const validate = (layer: Config, origin: Origin): void => {
    const message = refusalOf(layer, settings, placesOf[origin]);
    if (message !== undefined)
      throw new OperatorError(origin === 'flag' ? 'usage' : 'configuration', message);
  };

  const file = convict(schema, { env: {}, args: [] });
  for (const [key, value] of inFile) file.set(key, value);
  validate(file, 'file');
  const config = convict(schema, { env: variables, args: [] }).load(file.getProperties());
  validate(config, 'environment');
  for (const key of keys) {
    const written = flags.get(key)?.map(bare);
    if (written !== undefined)
      config.set(key, settings[key]?.format.isList === true ? written.join() : written.at(-1));
  }
  validate(config, 'flag');

  const originOf = (key: string): Origin => {
    if (flags.has(key)) return 'flag';
    if (variables[environmentOf(key)] !== undefined) return 'environment';
    return inFile.has(key) ? 'file' : 'default';
  };
  const forEach = <T>(of: (key: string) => T) => Object.fromEntries(keys.map((key) => [key, of(key)]));
  return frozen({
    values: forEach((key) => config.get(key)) as ValuesOf<S>,
    origins: forEach(originOf),
    places: forEach((key) => placesOf[originOf(key)](key)),
    overridden: [...inFile.keys()].filter((key) => originOf(key) !== 'file'),
    links,
  });
}

/** The convict schema of a settings table. convict keeps formats by name, for all of the process: they are constant. */
function schemaOf(settings: Settings): convict.Schema<Record<string, unknown>> {
  const entries = Object.entries(settings).map(([key, { default: unset, format }]) => {
    const validate = (value: unknown): void => {
      if (!format.accepts(value)) throw new Error(REFUSED);
    };
    convict.addFormat({ name: format.allowed, validate, coerce: format.coerce });
    const isNullable = unset === null;
    return [
      key,
      { default: unset, nullable: isNullable, format: format.allowed, env: environmentOf(key) },
    ] as const;
  });
  return nested(Object.fromEntries(entries)) as convict.Schema<Record<string, unknown>>;
}

const REFUSED = 'refused';
/** convict names each key with its error at the start of a line; what it quotes has no line ends. */
const REFUSED_KEY = new RegExp(`^([\\w.]+): ${REFUSED}`, 'gm');

/** Has convict check all values; says of each that it refuses where it came from and what is allowed. */
function refusalOf(config: Config, settings: Settings, placeOf: (key: string) => string): string | undefined {
  try {
    config.validate({ allowed: 'strict' });
    return undefined;
  } catch (error) {
    const messages = [...messageOf(error).matchAll(REFUSED_KEY)].map(([, key = '']) => {
      const { allowed = '', isSensitive } = settings[key]?.format ?? {};
      return `Wrong value for ${placeOf(key)}: ${shown(config.get(key), isSensitive)} is not ${allowed}.`;
    });
    if (messages.length === 0) throw error;
    return messages.join(' ');
  }
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
