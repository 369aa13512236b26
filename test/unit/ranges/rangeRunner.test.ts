import { describe, expect, it } from 'vitest';
import { countWorkers, rangeRunner } from '../../../src/ranges/index.js';
import type { RangeJob, RangeLine, RangeOutcome, WorkSource } from '../../../src/ranges/index.js';
import { RangeLostError, StorageError } from '../../../src/storage/index.js';
import type { FoundDamage, RangeStore } from '../../../src/storage/index.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

const clock = new VirtualClock();

async function settle(): Promise<void> {
  for (let turns = 0; turns < 8; turns += 1) await clock.turn();
}

class Line implements RangeLine {
  readonly outcome: Promise<RangeOutcome>;
  isClosed = false;
  end: (outcome: RangeOutcome) => void = () => undefined;
  breakWith: (error: Error) => void = () => undefined;
  /** What its last write meets. */
  closing: () => void = () => undefined;

  constructor() {
    this.outcome = new Promise((resolve, reject) => {
      this.end = resolve;
      this.breakWith = reject;
    });
  }

  async close(): Promise<void> {
    await clock.turn();
    this.isClosed = true;
    this.closing();
  }
}

function setUp(
  parallelRanges = 2,
  begin: (line: Line, from: number) => void = () => undefined,
  onDamage?: (damage: FoundDamage) => void,
) {
  const said: string[] = [];
  const lines = new Map<number, Line>();
  const controllers = new Map<number, AbortController>();
  let height = 0;
  const job = (from: number): RangeJob => {
    const controller = new AbortController();
    controllers.set(from, controller);
    const tell = async (what: string): Promise<void> => {
      expect(lines.get(from)?.isClosed ?? true).toBe(true);
      said.push(`${from} ${what}`);
    };
    return {
      range: { from, to: from },
      store: {} as RangeStore,
      signal: controller.signal,
      succeed: () => tell('succeeded'),
      fail: (reason) => tell(`failed: ${reason}`),
      release: () => tell('released'),
    };
  };
  const source = { next: async (signal) => (signal.aborted ? undefined : job(height++)) } as WorkSource;
  const runner = rangeRunner<Line>({
    ...{ parallelRanges, source },
    startLine: async ({ range }) => {
      const line = new Line();
      begin(line, range.from);
      lines.set(range.from, line);
      return line;
    },
    logger: new RecordingLogger(),
    ...(onDamage === undefined ? {} : { onDamage }),
  });
  const stop = new AbortController();
  const running = runner.run(stop.signal);
  running.catch(() => undefined);
  const end = (): Promise<void> => {
    stop.abort();
    return running;
  };
  return { controllers, lines, said, end, runner, running };
}

describe('the runner of ranges', () => {
  it('fills as many at once as it has places, and hands back what became of each', async () => {
    const { lines, runner, said, end } = setUp();
    await settle();
    const at = () => runner.running().map(({ job }) => job.range.from);
    expect(at()).toEqual([0, 1]);
    lines.get(1)!.end({ kind: 'published' });
    await settle();
    expect(said).toEqual(['1 succeeded']);
    expect(at()).toEqual([0, 2]);
    lines.get(0)!.end({ kind: 'failed', reason: 'it does not fit' });
    await settle();
    expect(said[1]).toBe('0 failed: it does not fit');
    expect(at()).toEqual([2, 3]);
    await end();
    expect(said.slice(2).sort()).toEqual(['2 released', '3 released']);
    expect(runner.running()).toEqual([]);
  });

  it('fills as many at once as there may be, without a warning of Node.js about listeners', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error): void => void warnings.push(message);
    process.on('warning', onWarning);
    const { runner, end } = setUp(64);
    while (runner.running().length < 64) await settle();
    await end();
    await settle();
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['beside a range', 7],
    ['in a range', 0],
  ])('tells of a damaged block %s, which begins anew', async (_, height) => {
    const told: FoundDamage[] = [];
    const { lines, said, end } = setUp(1, undefined, (damage) => told.push(damage));
    await settle();
    const damage = `block record of height ${height}: it is missing`;
    lines.get(0)!.breakWith(new StorageError('corrupt', 'The store is damaged', { height, damage }));
    await settle();
    expect(told).toEqual([{ height, what: damage }]);
    expect(said).toEqual([`0 failed: ${damage}`]);
    await end();
  });

  const lost = new RangeLostError('postgres://localhost/index');

  /** The one range that is lost, as each of its writes may learn it first. */
  const losses: Readonly<Record<string, (line: Line) => void>> = {
    'while its line begins': () => {
      throw lost;
    },
    'in a write': (line) => line.breakWith(lost),
    'in its last write': (line) => {
      line.closing = () => {
        throw lost;
      };
      line.end({ kind: 'failed', reason: 'it does not fit' });
    },
  };

  it.each(Object.entries(losses))('gives back a range that it has lost %s, and goes on', async (_, lose) => {
    const { controllers, lines, said, end } = setUp(1, (line, from) => {
      if (from === 0) lose(line);
    });
    while (!said.includes('0 released')) await settle();
    lines.get(1)!.end({ kind: 'published' });
    await settle();
    expect(said).toEqual(['0 released', '1 succeeded']);
    expect(controllers.get(0)!.signal.aborted).toBe(false);
    await end();
  });

  it('ends with a bug, also where the range was lost or given back before it shows', async () => {
    for (const when of ['before', 'after', 'while it begins', 'while it closes']) {
      const bug = new TypeError('a bug');
      const throwing = (): void => {
        throw bug;
      };
      const { controllers, lines, running, said } = setUp(1, (line) => {
        if (when === 'while it begins') throwing();
        if (when === 'while it closes') line.closing = throwing;
      });
      await settle();
      const line = lines.get(0);
      if (when === 'before') line?.breakWith(bug);
      if (when === 'after') line!.closing = () => line!.breakWith(bug);
      controllers.get(0)!.abort();
      await expect(running, when).rejects.toBe(bug);
      expect(said, when).toEqual(['0 released']);
    }
  });

  it('leaves a fault of the store, met after a range was given back, to whoever takes that range next', async () => {
    const { controllers, lines, said, end } = setUp(1);
    await settle();
    const line = lines.get(0)!;
    line.closing = () => line.breakWith(new StorageError('unavailable', 'The database is away.'));
    controllers.get(0)!.abort();
    await settle();
    expect(said).toEqual(['0 released']);
    await end();
  });
});

it('counts the processes that share a store: those that live, those that went silent, those that stopped', () => {
  const workers = [
    { state: 'running', isAlive: true },
    { state: 'ready', isAlive: true },
    { state: 'running', isAlive: false },
    { state: 'stopped', isAlive: false },
  ] as const;
  expect(Object.fromEntries(countWorkers(workers))).toEqual({ live: 2, silent: 1, stopped: 1 });
});
