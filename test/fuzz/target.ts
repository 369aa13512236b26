import { connect } from 'node:net';
import { OperatorError, type ExitReason, type Random } from '../../src/runtime/index.js';
import { Dice } from '../simulation/Dice.js';

/** Choices of one input; the same seed, target and case give the same ones. */
export class Choices {
  readonly #random: Random;

  constructor(seed: number, target: string, index: number) {
    this.#random = new Dice(seed, `${target} ${index}`).random;
  }

  below(bound: number): number {
    return Math.floor(this.#random.next() * bound);
  }

  /** True once in `times`. */
  once(times: number): boolean {
    return this.below(times) === 0;
  }

  of<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined && items.length === 0) throw new Error('nothing to choose from');
    return item as T;
  }

  /** Between one and `most`, small numbers far more often. */
  few(most: number): number {
    let count = 1;
    while (count < most && this.below(3) > 0) count += 1;
    return count;
  }
}

/** What became of an input: `accepted`, or why it was refused. Anything else that happens is a finding. */
export type Outcome = string;

/** A way in, with inputs made for it. */
export interface FuzzTarget {
  readonly name: string;
  /** Its part of all inputs, relative to the others: the quick ones get more. */
  readonly share: number;
  /** Inputs that are under way at once, where they wait for something; else one. */
  readonly concurrency?: number;
  /** Within a test or a scenario, at whose end what it opened is closed (`atEnd`). */
  open(): Run | Promise<Run>;
}

/** Feeds in one input made of the choices. Throws, with the input shown, where what became of it is not what it must be. */
export type Run = (choices: Choices) => Outcome | Promise<Outcome>;

export function insist(holds: boolean, property: string, input: () => unknown): asserts holds {
  if (holds) return;
  throw new Error(`${property}; the input: ${shown(input())}`);
}

const SHOWN = 2_000;

export function shown(input: unknown): string {
  const text = input instanceof Uint8Array ? Buffer.from(input).toString('hex') : JSON.stringify(input);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}… (${text.length} characters)` : text;
}

/** A message that can be shown in a terminal or a log, however wild the input was. */
export function insistReadable(message: string, input: () => unknown): void {
  insist(message.length >= 10, `a refusal says nothing: ${JSON.stringify(message)}`, input);
  insist(message.length <= 1_500, `a refusal repeats the input at length (${message.length})`, input);
  const isControlled = /\p{Cc}/u.test(message);
  insist(!isControlled, `a refusal holds control characters: ${JSON.stringify(message)}`, input);
}

/** What an operator is told instead: an expected error with one of these exits, in words, without the password in it. */
export function toldOperator(error: unknown, exits: readonly ExitReason[], input: () => unknown): string {
  if (!(error instanceof OperatorError))
    throw new Error(`${String(error)} from ${shown(input())}`, { cause: error });
  insistReadable(error.message, input);
  insist(exits.includes(error.exit), `exit ${error.exit}`, input);
  insist(!error.message.includes('sesame'), 'a password is shown', input);
  return error.message;
}

export type Refusals = readonly (readonly [name: string, form: RegExp])[];

export function formOf(message: string, refusals: Refusals, input: () => unknown): string {
  const form = refusals.find(([, pattern]) => pattern.test(message));
  insist(form !== undefined, `a refusal of no known form: ${message}`, input);
  return form[0];
}

interface LastWord {
  readonly word: Buffer;
  /** A connection that says nothing for so long is left: what it was sent may be the beginning of something. */
  readonly idleMs: number;
}

/** Sends everything, and gives back all that comes until the server hangs up, or says its last word where there is one. */
export function converse(port: number, bytes: Buffer, last?: LastWord): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    if (last === undefined) socket.end(bytes);
    else socket.setTimeout(last.idleMs, () => socket.destroy()).write(bytes);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (last !== undefined && chunk.includes(last.word)) socket.destroy();
    });
    // A server that hangs up on what it does not want may do so before everything is sent.
    socket.on('error', () => undefined);
    socket.on('end', () => socket.destroy());
    socket.on('close', () => resolve(Buffer.concat(chunks)));
  });
}
