import { messageOf, OperatorError, parseJson } from '../../runtime/index.js';
import { type DevnetMethod, methodNames, methods, type Subject } from './rpcMethods.js';

/** The gRPC statuses a call can end with, except OK. */
const statusNames = [
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;

export type StatusName = (typeof statusNames)[number];

/** Which calls a rule applies to. All conditions must hold. */
export interface FaultCondition {
  /** A method's name or a prefix and `*`: `SubscribeBlocks*`, `*`. */
  readonly method: string;
  /** Share of matching calls or messages, 0 to 1. The draw depends on the seed, the subject and its number of attempts. */
  readonly probability?: number;
  /** Strike every n-th match. */
  readonly every?: number;
  /** Skip the first matches. */
  readonly skip?: number;
  /** Strike at most this often. */
  readonly times?: number;
  /** Only for these heights. "Latest" means the head. */
  readonly fromHeight?: number;
  readonly toHeight?: number;
  /** Only within this time since the node's start. */
  readonly afterMs?: number;
  readonly untilMs?: number;
  /** Streams only: each message (default), or the opening. */
  readonly on?: 'open' | 'message';
}

const changedHeaderFields = ['proposer', 'payload_hash', 'id'] as const;
const changedCopies = ['time', 'height', 'signature', 'guarantee'] as const;

/** What goes wrong. */
export type FaultEffect =
  /** The answer comes later. */
  | { readonly fault: 'latency'; readonly delayMs: number }
  | { readonly fault: 'error'; readonly code: StatusName; readonly message?: string }
  /** No answer ever; a stream falls silent and stays open. */
  | { readonly fault: 'stall' }
  /** `reset` breaks the connection (default for unary calls), `end` ends the stream normally. */
  | { readonly fault: 'cut'; readonly how?: 'end' | 'reset' }
  /** The message ends within a field. */
  | { readonly fault: 'truncated' }
  /** An unknown field adds this many bytes; default 8 MiB. */
  | { readonly fault: 'oversized'; readonly bytes?: number }
  /**
   * Bytes that do not hash to what was asked for; in a block, an invented guarantee; in a header or digest, a wrong
   * id; in a snapshot, a committee of other weights.
   */
  | { readonly fault: 'wrong_body' }
  /** A valid answer for another height or id. */
  | { readonly fault: 'other_body' }
  /** The orphan instead of the finalized block, with status UNKNOWN. */
  | { readonly fault: 'orphaned' }
  /** A block or header with a parent that does not exist. */
  | { readonly fault: 'wrong_parent' }
  /**
   * Of the header in a full block, a field that its id covers (default `proposer`): it hashes to nothing, as one of a form that
   * is not known yet does. `id`: its own id alone, which then is not the block's.
   */
  | { readonly fault: 'changed_header'; readonly field?: ChangedHeaderField }
  /** Of a block, a field that its header or the guarantee has as well (default `time`). */
  | { readonly fault: 'changed_copy'; readonly field?: ChangedCopy }
  /** A full block without its header: nothing in it can be held against its id. */
  | {
      readonly fault: 'hidden_header';
      /** With an invented guarantee, which the header would refute. */
      readonly invents?: true;
    }
  | { readonly fault: 'other_chain'; readonly chainId?: string }
  | { readonly fault: 'other_spork' }
  /** The node reports this spork root height, which is wrong; `named`: with the id of the block there. */
  | { readonly fault: 'false_spork'; readonly rootHeight: number; readonly named?: true }
  | { readonly fault: 'swapped_chunks' }
  | { readonly fault: 'missing_chunk' }
  | { readonly fault: 'extra_chunk' }
  /** Answers to "latest" are this many blocks old. */
  | { readonly fault: 'head_backwards'; readonly blocks: number }
  /** Execution data comes this many blocks later; negative: earlier. Applied whenever the head moves. */
  | { readonly fault: 'execution_data_lag'; readonly blocks: number }
  /** A stream skips a height. */
  | { readonly fault: 'gap' }
  /** A stream sends a height twice. */
  | { readonly fault: 'repeat' };

export type ChangedHeaderField = (typeof changedHeaderFields)[number];
export type ChangedCopy = (typeof changedCopies)[number];
export type FaultKind = FaultEffect['fault'];
export type FaultRule = FaultCondition & FaultEffect;
/** Faults that make an answer wrong, not late or absent. */
export type Lie = Exclude<
  FaultEffect,
  { readonly fault: 'latency' | 'error' | 'stall' | 'cut' | 'execution_data_lag' | 'gap' | 'repeat' }
>;

interface KindInfo {
  /** The subjects that the fault applies to; absent: all. */
  readonly subjects?: readonly Subject[];
  readonly isFor?: (method: DevnetMethod) => boolean;
  /** Parameters and their limits. */
  readonly parameters?: Readonly<Record<string, ParameterInfo>>;
}

interface ParameterInfo {
  readonly check: (value: unknown) => boolean;
  readonly must: string;
  readonly isOptional?: true;
}

const HEIGHTS_MAX = 1_000_000_000;
const DURATION_MS_MAX = 3_600_000;
const OVERSIZE_BYTES_MAX = 1_073_741_824;

const whole = (min: number, max: number): ParameterInfo => ({
  check: (value) => Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max,
  must: `a whole number between ${min} and ${max}`,
});
const choice = (...values: readonly string[]): ParameterInfo => ({
  check: (value) => typeof value === 'string' && values.includes(value),
  must: `one of ${values.join(', ')}`,
});
const someText: ParameterInfo = { check: (value) => typeof value === 'string', must: 'a text' };
const optional = (parameter: ParameterInfo): ParameterInfo => ({ ...parameter, isOptional: true });
const onlyTrue = optional({ check: (value) => value === true, must: 'true' });

const blockSubjects: readonly Subject[] = ['block', 'header', 'digest'];
const chunkSubjects: readonly Subject[] = ['executionData', 'indexedBlock'];
const bodySubjects: readonly Subject[] = [...blockSubjects, 'collection', 'transaction', ...chunkSubjects];
const isLatest = (method: DevnetMethod): boolean => method.startsWith('GetLatest');
const isStream = (method: DevnetMethod): boolean => methods[method].isStream;

const kinds: Readonly<Record<FaultKind, KindInfo>> = {
  latency: { parameters: { delayMs: whole(0, DURATION_MS_MAX) } },
  error: { parameters: { code: choice(...statusNames), message: optional(someText) } },
  stall: {},
  cut: { parameters: { how: optional(choice('end', 'reset')) } },
  truncated: {},
  oversized: { parameters: { bytes: optional(whole(1, OVERSIZE_BYTES_MAX)) } },
  wrong_body: { subjects: [...bodySubjects, 'snapshot'] },
  other_body: { subjects: bodySubjects },
  orphaned: { subjects: blockSubjects },
  wrong_parent: { subjects: ['block', 'header'] },
  changed_header: { subjects: ['block'], parameters: { field: optional(choice(...changedHeaderFields)) } },
  changed_copy: { subjects: ['block'], parameters: { field: optional(choice(...changedCopies)) } },
  hidden_header: { subjects: ['block'], parameters: { invents: onlyTrue } },
  other_chain: { subjects: ['network', 'header'], parameters: { chainId: optional(someText) } },
  other_spork: { subjects: ['version'] },
  false_spork: { subjects: ['version'], parameters: { rootHeight: whole(1, HEIGHTS_MAX), named: onlyTrue } },
  swapped_chunks: { subjects: chunkSubjects },
  missing_chunk: { subjects: chunkSubjects },
  extra_chunk: { subjects: chunkSubjects },
  head_backwards: { isFor: isLatest, parameters: { blocks: whole(1, HEIGHTS_MAX) } },
  execution_data_lag: {
    subjects: ['executionData'],
    parameters: { blocks: whole(-HEIGHTS_MAX, HEIGHTS_MAX) },
  },
  gap: { isFor: isStream },
  repeat: { isFor: isStream },
};

const conditions: Readonly<Record<string, ParameterInfo>> = {
  method: { check: (value) => typeof value === 'string', must: 'the name of a method' },
  fault: choice(...Object.keys(kinds)),
  probability: optional({
    check: (value) => typeof value === 'number' && value >= 0 && value <= 1,
    must: 'a number between 0 and 1',
  }),
  every: optional(whole(1, HEIGHTS_MAX)),
  skip: optional(whole(0, HEIGHTS_MAX)),
  times: optional(whole(1, HEIGHTS_MAX)),
  fromHeight: optional(whole(0, Number.MAX_SAFE_INTEGER)),
  toHeight: optional(whole(0, Number.MAX_SAFE_INTEGER)),
  afterMs: optional(whole(0, Number.MAX_SAFE_INTEGER)),
  untilMs: optional(whole(0, Number.MAX_SAFE_INTEGER)),
  on: optional(choice('open', 'message')),
};

/** The methods a rule applies to, by its pattern and its fault's subjects. */
export function methodsOf(rule: FaultRule): DevnetMethod[] {
  const { subjects, isFor } = kinds[rule.fault];
  return methodNames.filter(
    (method) =>
      matchesPattern(rule.method, method) &&
      (subjects === undefined || subjects.includes(methods[method].subject)) &&
      (isFor === undefined || isFor(method)) &&
      (rule.on === undefined || methods[method].isStream),
  );
}

function matchesPattern(pattern: string, method: DevnetMethod): boolean {
  return pattern.endsWith('*') ? method.startsWith(pattern.slice(0, -1)) : method === pattern;
}

/**
 * Parses a fault script: a JSON array of rules. `source` is its name in messages.
 *
 * Expected errors: `OperatorError('configuration')` that says which rule is wrong, and how.
 */
export function parseFaults(json: string, source = 'the fault script'): FaultRule[] {
  let value: unknown;
  try {
    value = parseJson(json);
  } catch (error) {
    throw new OperatorError('configuration', `${source} is not JSON: ${messageOf(error)}`);
  }
  return checkFaults(value, source);
}

/** Like `parseFaults`, for parsed JSON. */
export function checkFaults(value: unknown, source = 'the fault script'): FaultRule[] {
  if (!Array.isArray(value)) {
    throw new OperatorError(
      'configuration',
      `${source} must hold an array of rules, such as [{"method": "GetFullCollectionByID", "fault": "latency", "delayMs": 100}].`,
    );
  }
  return value.map((rule: unknown, index) => {
    const problem = ruleProblem(rule);
    if (problem !== undefined) {
      throw new OperatorError('configuration', `${source}, rule ${index + 1}: ${problem}.`);
    }
    return rule as FaultRule;
  });
}

function ruleProblem(rule: unknown): string | undefined {
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) return 'it must be an object';
  const fields = rule as Readonly<Record<string, unknown>>;
  const problem = fieldsProblem(fields, conditions);
  if (problem !== undefined) return problem;

  const kind = fields['fault'] as FaultKind;
  const parameters = kinds[kind].parameters ?? {};
  const unknown = Object.keys(fields).find(
    (name) => !Object.hasOwn(conditions, name) && !Object.hasOwn(parameters, name),
  );
  if (unknown !== undefined) {
    const known = [...Object.keys(conditions), ...Object.keys(parameters)].join(', ');
    return `"${unknown}" is not a field of a rule with the fault "${kind}", which takes ${known}`;
  }
  return fieldsProblem(fields, parameters) ?? meaningProblem(fields as unknown as FaultRule);
}

function fieldsProblem(
  fields: Readonly<Record<string, unknown>>,
  parameters: Readonly<Record<string, ParameterInfo>>,
): string | undefined {
  for (const [name, { check, must, isOptional }] of Object.entries(parameters)) {
    const value = fields[name];
    if (value === undefined) {
      if (isOptional === undefined) return `"${name}" is missing: it must be ${must}`;
    } else if (!check(value)) {
      return `"${name}" must be ${must}`;
    }
  }
  return undefined;
}

function meaningProblem(rule: FaultRule): string | undefined {
  if (!methodNames.some((method) => matchesPattern(rule.method, method))) {
    return `no method is called "${rule.method}"; the methods are ${methodNames.join(', ')}`;
  }
  if (methodsOf(rule).length === 0) return `the fault "${rule.fault}" makes no sense for ${rule.method}`;
  if ((rule.fromHeight ?? 0) > (rule.toHeight ?? Number.MAX_SAFE_INTEGER)) {
    return '"fromHeight" is above "toHeight"';
  }
  if ((rule.afterMs ?? 0) > (rule.untilMs ?? Number.MAX_SAFE_INTEGER)) return '"afterMs" is after "untilMs"';
  if (rule.fault === 'execution_data_lag') {
    const counting = (['probability', 'every', 'skip', 'times', 'on'] as const).find(
      (name) => rule[name] !== undefined,
    );
    if (counting !== undefined) {
      return `"${counting}" makes no sense for a lag, which lasts as long as its rule applies`;
    }
  }
  return undefined;
}
