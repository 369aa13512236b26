import { readFileSync } from 'node:fs';
import convict from 'convict';
import { messageOf, named, OperatorError, parseJson } from '../runtime/index.js';
import { nearest } from './nearest.js';
import { FormatError } from './formats/FormatError.js';
import { environmentOf, flagOf, isOurEnvironment } from './settings.js';
import type { Settings, ValuesOf } from './settings.js';

/** The source of a value, for `config print`. */
export type Origin = 'default' | 'file' | 'environment' | 'flag';

/** The values of a settings table and their origins, frozen. */
export interface Loaded<S extends Settings> {
  readonly values: ValuesOf<S>;
  readonly origins: Readonly<Record<string, Origin>>;
  /** Keys that the file sets and the environment or a flag overrides. */
  readonly overridden: readonly string[];
}

/** Everything that can set a value, weakest first. */
export interface Sources {
  /** Path of a JSON file, if one was given. */
  readonly file: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Flag values by key, as written; several for a repeated flag. */
  readonly flags: ReadonlyMap<string, readonly string[]>;
}

/**
 * Merges default < file < environment < flag and checks each value. Expected errors: OperatorError `configuration`
 * for a file or the environment, `usage` for a flag; each names the key and what is allowed.
 */
export function loadSettings<S extends Settings>(settings: S, sources: Sources): Loaded<S> {
  const file = sources.file === undefined ? {} : readFile(sources.file, settings);
  const environment = readEnvironment(settings, sources.environment);
  const flags = readFlags(settings, sources.flags);

  const merged = convict<Record<string, unknown>>(schemaOf(settings), { env: {}, args: [] });
  const origins: Record<string, Origin> = {};
  for (const [key, definition] of Object.entries(settings)) {
    merged.set(key, definition.default);
    origins[key] = 'default';
  }
  const layers: [Origin, Record<string, unknown>][] = [
    ['file', file],
    ['environment', environment],
    ['flag', flags],
  ];
  for (const [origin, layer] of layers) {
    for (const [key, value] of Object.entries(layer)) {
      merged.set(key, value);
      origins[key] = origin;
    }
  }
  merged.validate({ allowed: 'strict' });
  const values = Object.fromEntries(Object.keys(settings).map((key) => [key, freeze(merged.get(key))]));
  const overridden = Object.keys(file).filter((key) => origins[key] !== 'file');
  return Object.freeze({
    values: Object.freeze(values) as ValuesOf<S>,
    origins: Object.freeze(origins),
    overridden: Object.freeze(overridden),
  });
}

function freeze(value: unknown): unknown {
  return Array.isArray(value) ? Object.freeze([...(value as unknown[])]) : value;
}

/** The convict schema of a settings table: dotted keys become nested groups. */
function schemaOf(settings: Settings): convict.Schema<Record<string, unknown>> {
  const root: Record<string, unknown> = {};
  for (const [key, definition] of Object.entries(settings)) {
    const path = key.split('.');
    const last = path.pop() ?? key;
    let group = root;
    for (const name of path) {
      group[name] ??= {};
      group = group[name] as Record<string, unknown>;
    }
    group[last] = {
      doc: definition.doc,
      // Set later: convict coerces values to the type of the default.
      default: null,
      env: environmentOf(key),
      arg: flagOf(key, definition),
      format: (value: unknown) => void definition.format.check(value),
    };
  }
  return root as convict.Schema<Record<string, unknown>>;
}

/** Some editors write one at the start of a file. It is invisible, so an error about it would help nobody. */
const BYTE_ORDER_MARK = /^\uFEFF/;

function readFile(path: string, settings: Settings): Record<string, unknown> {
  let content: unknown;
  try {
    content = parseJson(readFileSync(path, 'utf8').replace(BYTE_ORDER_MARK, ''));
  } catch (error) {
    throw new OperatorError(
      'configuration',
      `Cannot read the configuration file ${named(path)}: ${messageOf(error)}.`,
      { cause: error },
    );
  }
  const found: Record<string, unknown> = {};
  const walk = (node: unknown, prefix: string): void => {
    if (typeof node !== 'object' || node === null || Array.isArray(node)) {
      const where = prefix === '' ? 'The file' : `The key ${prefix}`;
      throw new OperatorError('configuration', `${where} in ${named(path)} must be an object of keys.`);
    }
    for (const [name, value] of Object.entries(node)) {
      const key = prefix === '' ? name : `${prefix}.${name}`;
      const definition = Object.hasOwn(settings, key) ? settings[key] : undefined;
      if (definition !== undefined) {
        found[key] = attempt('configuration', `${key} in ${named(path)}`, () =>
          definition.format.check(value),
        );
      } else if (name.startsWith('$')) {
        // "$schema", "$comment": for editors and readers.
      } else if (Object.keys(settings).some((known) => known.startsWith(key + '.'))) {
        walk(value, key);
      } else {
        throw new OperatorError(
          'configuration',
          `Unknown key ${named(key)} in ${named(path)}.${suggestion(key, Object.keys(settings))} ` +
            'docs/configuration.md lists every key.',
        );
      }
    }
  };
  walk(content, '');
  return found;
}

function readEnvironment(
  settings: Settings,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, unknown> {
  const keys = new Map(Object.keys(settings).map((key) => [environmentOf(key), key]));
  const found: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || !isOurEnvironment(name)) continue;
    const key = keys.get(name);
    const definition = key === undefined ? undefined : settings[key];
    if (key === undefined || definition === undefined) {
      throw new OperatorError(
        'configuration',
        `Unknown environment variable ${named(name)}.${suggestion(name, [...keys.keys()])} ` +
          'Unset it, or see docs/configuration.md for every variable.',
      );
    }
    found[key] = attempt('configuration', `environment variable ${name}`, () =>
      definition.format.parse(value),
    );
  }
  return found;
}

function readFlags(settings: Settings, flags: Sources['flags']): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [key, written] of flags) {
    const definition = settings[key];
    if (definition === undefined) continue;
    const flag = `--${flagOf(key, definition)}`;
    const last = written.at(-1) ?? '';
    found[key] = attempt('usage', flag, () =>
      definition.format.isList === true ? definition.format.check(written) : definition.format.parse(last),
    );
  }
  return found;
}

function attempt<T>(exit: 'usage' | 'configuration', where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    throw new OperatorError(exit, `Wrong value for ${where}: ${error.message}.`, { cause: error });
  }
}

/** A sentence that suggests what `written` may have meant, each word with `prefix`; empty if no known word is close. */
export function suggestion(written: string, known: readonly string[], prefix = ''): string {
  const close = nearest(written, known).map((word) => prefix + word);
  const last = close.pop();
  if (last === undefined) return '';
  return ` Did you mean ${close.length === 0 ? last : `${close.join(', ')} or ${last}`}?`;
}
