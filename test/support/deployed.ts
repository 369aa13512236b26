import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';

export const deployFolder = join(import.meta.dirname, '../../deploy');

/** A command line of the program with its environment, as a compose file or a manifest has it. */
export interface DeployedCommand {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export type Yaml = string | number | boolean | null | readonly Yaml[] | { readonly [key: string]: Yaml };
export type YamlMap = { readonly [key: string]: Yaml };

/** A file of `deploy`, with what `<<` merges. */
export function readYaml(path: string): YamlMap {
  return asMap(parse(readFileSync(join(deployFolder, path), 'utf8'), { merge: true }) as Yaml);
}

export function readYamlDocuments(path: string): readonly YamlMap[] {
  const text = readFileSync(join(deployFolder, path), 'utf8');
  return parseAllDocuments(text).map((document) => {
    if ('errors' in document && document.errors.length > 0) throw document.errors[0] as Error;
    return asMap(document.toJS() as Yaml);
  });
}

export function asMap(value: Yaml | undefined): YamlMap {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`not a map: ${JSON.stringify(value)}`);
  return value as YamlMap;
}

export function asList(value: Yaml | undefined): readonly Yaml[] {
  if (!Array.isArray(value)) throw new Error(`not a list: ${JSON.stringify(value)}`);
  return value as readonly Yaml[];
}

/** Follows keys, and places of lists, down from a value. */
export function at(value: Yaml | undefined, ...path: readonly (string | number)[]): Yaml | undefined {
  let found = value;
  for (const key of path) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string | number, Yaml>)[key];
  }
  return found;
}

/** A value that stands as text: a word, a number, a truth. */
export function asText(value: Yaml | undefined): string {
  if (value === undefined || value === null || typeof value === 'object')
    throw new Error(`not a text: ${JSON.stringify(value)}`);
  return String(value);
}
