import { PassThrough, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { expect, it } from 'vitest';
import { Output, outputError } from '../../../src/runtime/index.js';
import { MAX_WAITING_BYTES } from '../../../src/runtime/output/Output.js';
import { refusal, seededRandom, VirtualClock } from '../../support/index.js';
import type { Sink } from '../../../src/runtime/output/openSink.js';

type Done = Parameters<Sink['write']>[1];

const coded = (code: string): NodeJS.ErrnoException => Object.assign(new Error(code), { code });

/** What is behind an output: it takes at most so many bytes before it is full for a moment, or none, or refuses. */
class Behind implements Sink {
  readonly chunkBytes = 4_096;
  /** An error, or how much it takes at once. */
  answer: string | number = Infinity;
  /** Answers come when `come` is called, as those of a file do. */
  isLate = false;
  text = '';
  #isFull = false;
  #pending: (() => void) | undefined;

  write(buffers: readonly Uint8Array[], done: Done): void {
    if (this.#pending !== undefined) throw new Error('written to before the last write came back');
    const act = (): void => {
      if (this.#isFull || typeof this.answer === 'string') {
        this.#isFull = false;
        done(coded(typeof this.answer === 'string' ? this.answer : 'EAGAIN'), 0);
        return;
      }
      const given = Buffer.concat(buffers);
      const taken = given.subarray(0, this.answer);
      this.#isFull = taken.length < given.length;
      this.text += taken.toString('latin1');
      done(null, taken.length);
    };
    if (this.isLate) this.#pending = act;
    else act();
  }

  come(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.();
  }
}

function outputOver() {
  const [behind, clock] = [new Behind(), new VirtualClock()];
  const refused: string[] = [];
  const onRefused = ({ code = '' }: NodeJS.ErrnoException): void => void refused.push(code);
  const output = new Output('standard output', { sink: behind, clock, onRefused });
  return { behind, clock, output, refused };
}

const LONG = 'x'.repeat(60_000);
const FULL_LINES = Math.ceil(MAX_WAITING_BYTES / LONG.length);

it('an output that never waits shows that nothing is taken after a second, before anything is lost', async () => {
  for (const isLate of [false, true]) {
    const { behind, clock, output } = outputOver();
    output.neverWait();
    Object.assign(behind, { answer: 'EAGAIN', isLate });
    output.write('one\n');
    await clock.advance(900);
    expect(output.trouble()).toBeUndefined();
    await clock.advance(200);
    const reason = expect.stringContaining('nobody reads it') as string;
    expect(output.trouble()).toMatchObject({ lostLines: 0, ageSeconds: 1.1, ...(!isLate && { reason }) });
    behind.answer = Infinity;
    behind.come();
    await clock.advance(100);
    expect([behind.text, output.trouble()]).toEqual(['one\n', undefined]);
  }
});

it('an output that never waits loses at once what is refused, asks every second, and goes on with a whole line', async () => {
  const { behind, clock, output } = outputOver();
  output.neverWait();
  behind.answer = 2;
  behind.isLate = true;
  output.write('begun\n');
  behind.come();
  behind.answer = 'ENOSPC';
  output.write('lost\n');
  behind.come();
  output.write('lost too\n');
  expect(output.trouble()).toMatchObject({ lostLines: 2, reason: 'the disk is full. Free some space' });
  behind.isLate = false;
  await clock.advance(5_000);
  expect(behind.text).toBe('be');
  behind.answer = Infinity;
  await clock.advance(1_000);
  output.write('next\n');
  expect(behind.text).toBe(
    'begun\n2 lines were lost here since 2026-01-01T00:00:00.000Z: the disk is full. Free some space.\nnext\n',
  );
  expect(output.isBehind).toBe(false);
});

it('an output that never waits stops trying at the end', async () => {
  const { behind, clock, output } = outputOver();
  output.neverWait();
  behind.answer = 'EAGAIN';
  output.write('one\n');
  output.close();
  output.write('two\n');
  expect(clock.pendingTimers).toBe(0);
});

it('an output that never waits loses nothing untold and keeps to its bound, whatever is behind it', async () => {
  for (let seed = 0; seed < 8; seed += 1) await playAt(seed);
});

/** Writes numbered lines to an output that changes at random, and compares what came with what was told. */
async function playAt(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const below = (limit: number): number => Math.floor(random.next() * limit);
  const { behind, clock, output } = outputOver();
  behind.isLate = seed % 2 === 1;
  let lost = 0;
  let written = 0;
  output.neverWait({
    onLost: (lines) => (lost += lines),
    say: ({ lines }) => output.write(`lost ${lines}\n`),
  });
  const answers = ['EAGAIN', 'EAGAIN', 'ENOSPC', 'EPIPE', 1, 100, 70_000, Infinity, Infinity];
  for (let turn = 0; turn < 120; turn += 1) {
    behind.answer = answers[below(answers.length)] ?? Infinity;
    for (let line = below(8); line > 0; line -= 1) {
      output.write(`${written} ${LONG}\n`);
      written += 1;
    }
    if (below(2) === 0) behind.come();
    if (below(3) === 0) await clock.advance(below(1_500));
    const waiting = (written - lost) * LONG.length - behind.text.length;
    expect(waiting).toBeLessThan(MAX_WAITING_BYTES + 2 * LONG.length);
  }
  behind.answer = Infinity;
  for (let turn = 0; turn < 200; turn += 1) {
    behind.come();
    await clock.advance(100);
  }
  expect([output.isBehind, output.trouble(), clock.pendingTimers]).toEqual([false, undefined, 0]);

  let next = 0;
  let told = 0;
  for (const line of behind.text.trimEnd().split('\n')) {
    const [, lines] = /^lost (\d+)$/.exec(line) ?? [];
    if (lines === undefined) expect(line).toBe(`${next} ${LONG}`);
    else told += Number(lines);
    next += lines === undefined ? 1 : Number(lines);
  }
  expect([next, told], `seed ${seed}`).toEqual([written, lost]);
}

it('an output that waits keeps everything, in order', async () => {
  const { behind, clock, output } = outputOver();
  behind.answer = 'EAGAIN';
  const lines = Array.from({ length: 3 * FULL_LINES }, (_, line) => `${line} ${LONG}\n`);
  for (const line of lines) output.write(line);
  let isDone = false;
  const done = output.put(Buffer.from('end\n')).then(() => (isDone = true));
  await clock.advance(1_000);
  expect(isDone).toBe(false);
  behind.answer = 10_000;
  await clock.advance(1_000);
  await done;
  expect(behind.text).toBe(`${lines.join('')}end\n`);
  await output.put();
});

it('an output that waits tells the one who waits for it that it is refused, else whoever made it', async () => {
  const { behind, output, refused } = outputOver();
  behind.answer = 'EPIPE';
  await expect(output.put(Buffer.from('one'))).rejects.toMatchObject({ code: 'EPIPE' });
  expect(refused).toEqual([]);
  output.write('two');
  expect(refused).toEqual(['EPIPE']);
});

it('what a signal ends is no output that cannot be written, though Node.js gives it a code; what a mount lacks is', async () => {
  const given = { signal: AbortSignal.abort() };
  const ending = pipeline(Readable.from(['x']), new PassThrough(), given);
  const error = await ending.catch((ended: unknown) => ended);
  expect(error).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR' });
  expect(outputError(error, 'a file')).toBe(error);
  const lacking = Object.assign(new Error('function not implemented, rename'), { code: 'ENOSYS' });
  const message = 'Cannot write a file: its file system lacks what writing needs. Choose a local disk,';
  expect(outputError(lacking, 'a file')).toMatchObject(refusal('storage', message));
});
