import { parseArgs } from 'node:util';
import type { ParseArgsConfig } from 'node:util';
import { flagOf, suggestion } from '../config/index.js';
import type { Setting, Settings } from '../config/index.js';
import { named, OperatorError, quoted } from '../runtime/index.js';
import type { Command, Invocation } from './command.js';

/** As long as a path can be. Splitting a longer one takes seconds. */
const MAX_ARGUMENT_LENGTH = 4096;

/**
 * Splits a command's arguments. Expected errors: OperatorError `usage` for an unknown flag, a missing value, a value
 * where none belongs, too many arguments or one beyond MAX_ARGUMENT_LENGTH; `undefined` when help was asked for.
 */
export function parseInvocation(command: Command, args: readonly string[]): Invocation | undefined {
  const byFlag = new Map<string, { key: string; definition: Setting; own: boolean }>();
  const add = (table: Settings, own: boolean): void => {
    for (const [key, definition] of Object.entries(table))
      byFlag.set(flagOf(key, definition), { key, definition, own });
  };
  add(command.settings, false);
  add(command.ownFlags, true);

  const options: NonNullable<ParseArgsConfig['options']> = {
    config: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  };
  for (const [flag, { definition }] of byFlag) {
    options[flag] = { type: definition.format.isSwitch === true ? 'boolean' : 'string' };
  }
  const long = args.find((arg) => arg.length > MAX_ARGUMENT_LENGTH);
  if (long !== undefined) {
    throw new OperatorError(
      'usage',
      `The argument ${quoted(long)} is too long: at most ${MAX_ARGUMENT_LENGTH} characters are read.`,
    );
  }
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowNegative: true,
    tokens: true,
  });

  const known = [...byFlag.keys(), 'config', 'help'];
  const settingFlags = new Map<string, string[]>();
  const ownFlags = new Map<string, string[]>();
  const positionals: string[] = [];
  let configFile: string | undefined;
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional') {
      positionals.push(token.value);
      continue;
    }
    if (token.name === 'help') return undefined;
    const negated = token.rawName.startsWith('--no-') && !byFlag.has(token.rawName.slice('--'.length));
    const name = negated ? token.rawName.slice('--no-'.length) : token.name;
    if (name === 'config' && !negated) {
      configFile = valueOf(token, command);
      continue;
    }
    const target = byFlag.get(name);
    if (target === undefined || (negated && target.definition.format.isSwitch !== true)) {
      throw new OperatorError(
        'usage',
        `Unknown flag ${named(token.rawName)} for ${command.name}.${suggestion(token.rawName.replace(/^--?/, ''), known)} ` +
          `See flow-collection-indexer ${command.name} --help.`,
      );
    }
    const values = target.own ? ownFlags : settingFlags;
    let value: string;
    if (target.definition.format.isSwitch === true) {
      if (token.value !== undefined) {
        throw new OperatorError('usage', `${token.rawName} takes no value: write --${name} or --no-${name}.`);
      }
      value = negated ? 'false' : 'true';
    } else {
      value = valueOf(token, command);
    }
    values.set(target.key, [...(values.get(target.key) ?? []), value]);
  }
  if (positionals.length > command.maxPositionals) {
    const extra = positionals[command.maxPositionals] ?? '';
    throw new OperatorError(
      'usage',
      `${command.name} does not take the argument ${quoted(extra)}. ` +
        `See flow-collection-indexer ${command.name} --help.`,
    );
  }
  return { positionals, configFile, settingFlags, ownFlags };
}

function valueOf(
  token: { readonly rawName: string; readonly value: string | undefined },
  command: Command,
): string {
  if (token.value === undefined || token.value === '') {
    throw new OperatorError(
      'usage',
      `${token.rawName} needs a value. See flow-collection-indexer ${command.name} --help.`,
    );
  }
  return token.value;
}
