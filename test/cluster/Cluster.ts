import type pg from 'pg';
import { asAdmin } from '../support/postgresServer.js';
import { eventually, Program, scratchDirectory } from '../support/program.js';
import { listening, startArguments } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';
import { TcpFaults } from '../support/tcpFaults.js';
import { demand } from '../support/campaign.js';
import { run } from './World.js';
import type { World } from './World.js';

/** No scene takes longer: something hangs. */
const SCENE_LIMIT_MS = 400_000;

/** An open range, as the database has it. */
export interface OpenRow {
  readonly from: number;
  readonly next: number;
  /** Counts those who took it. */
  readonly epoch: number;
}

/** One daemon of a cluster, with its own way to the database. */
export interface Member {
  readonly name: string;
  readonly dataDir: string;
  readonly faults: TcpFaults;
  daemon: RunningDaemon;
}

export interface MemberOptions {
  readonly roles: string;
  /** Ranges at once. Default 4. */
  readonly ranges?: number;
}

/** Several daemons on one new database. */
export class Cluster {
  readonly world: World;
  readonly url: string;
  readonly members: Member[] = [];
  readonly #options = new Map<string, MemberOptions>();
  readonly #untilMs = performance.now() + SCENE_LIMIT_MS;

  private constructor(world: World, url: string) {
    this.world = world;
    this.url = url;
  }

  static async on(world: World): Promise<Cluster> {
    const name = `cluster_${Math.random().toString(36).slice(2)}`;
    await asAdmin(world.server.url, `CREATE DATABASE ${name}`);
    const url = new URL(world.server.url);
    url.pathname = `/${name}`;
    return new Cluster(world, url.href);
  }

  async start(name: string, options: MemberOptions): Promise<Member> {
    this.#options.set(name, options);
    const faults = await TcpFaults.before(this.url);
    const dataDir = scratchDirectory();
    const member: Member = { name, dataDir, faults, daemon: await this.#begin(name, dataDir, faults) };
    this.members.push(member);
    return member;
  }

  /** A process in place of one that has ended. */
  async restart(member: Member): Promise<void> {
    member.daemon = await this.#begin(member.name, member.dataDir, member.faults);
  }

  /** One that follows the tip, and four that fill in history, four ranges each. */
  async startUsual(): Promise<{ readonly leader: Member; readonly workers: readonly Member[] }> {
    const leader = await this.start('leader', { roles: 'live,api' });
    await this.until('the live range has a block', async () => (await this.coverage()).length > 0);
    const workers: Member[] = [];
    for (const name of ['one', 'two', 'three', 'four'])
      workers.push(await this.start(name, { roles: 'backfill' }));
    return { leader, workers };
  }

  /** The flags by which commands reach the index. */
  where(): string[] {
    return [...storeFlags(scratchDirectory()), '--store', this.url];
  }

  command(...words: string[]): Promise<string> {
    return run([...words, ...this.where()]);
  }

  async query<T extends pg.QueryResultRow>(sql: string): Promise<T[]> {
    return (await asAdmin(this.url, sql)).rows as T[];
  }

  async coverage(): Promise<{ readonly from: number; readonly to: number }[]> {
    const rows = await this.query<{ from_height: string; to_height: string }>(
      'SELECT from_height, to_height FROM flow.coverage ORDER BY from_height',
    );
    return rows.map((row) => ({ from: Number(row.from_height), to: Number(row.to_height) }));
  }

  async openRanges(): Promise<OpenRow[]> {
    const rows = await this.query<Record<'from_height' | 'next_height' | 'epoch', string>>(
      'SELECT from_height, next_height, epoch FROM flow_store.open_range ORDER BY from_height',
    );
    return rows.map((row) => ({
      from: Number(row.from_height),
      next: Number(row.next_height),
      epoch: Number(row.epoch),
    }));
  }

  /** Waits for it within the time of the scene. Expected errors: `Verdict`. */
  async until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const outcome = await eventually(async () => {
      if (await holds().catch(() => false)) return 'holds';
      return performance.now() > this.#untilMs && 'too late';
    });
    if (outcome === 'holds') return;
    const state = JSON.stringify({
      coverage: await this.coverage().catch(String),
      open: await this.openRanges().catch(String),
    });
    demand(false, `not within ${SCENE_LIMIT_MS / 1_000} s: ${what}; ${state}\n${this.#lastWords()}`);
  }

  /** Everything from the root on is covered in one piece. */
  whole(): Promise<void> {
    return this.until('the coverage is one range from the root to the head', async () => {
      const [first, ...more] = await this.coverage();
      return first?.from === 0 && first.to >= this.world.lastHeight && more.length === 0;
    });
  }

  /**
   * What every scene must come to: one range, no row twice, none missing, nothing left over, and what a straight run on one
   * machine has. Expected errors: `Verdict`.
   */
  async judge(): Promise<void> {
    await this.whole();
    await this.until('every plan is done', async () => {
      const [row] = await this.query<{ count: string }>('SELECT count(*) FROM flow_store.plan');
      return row?.count === '0';
    });
    for (const { daemon, name } of this.members) {
      const code = await daemon.program.stop();
      // Those that the scene has ended keep the code of then.
      demand(code === 0 || code === 'SIGKILL', `${name} ended with ${code}: ${tail(daemon.program.stdout)}`);
    }
    const [rows] = await this.query<{ blocks: string; heights: string }>(
      `SELECT count(*) AS blocks, count(DISTINCT height) AS heights FROM flow_store.block
        WHERE height <= ${this.world.lastHeight}`,
    );
    const wanted = String(this.world.lastHeight + 1);
    demand(
      rows?.blocks === wanted && rows.heights === wanted,
      `${rows?.blocks} rows of ${rows?.heights} blocks, not ${wanted}`,
    );
    demand((await this.openRanges()).length === 0, 'a range is open still');
    // Each reads all of it, and takes longer than most scenes.
    const [digest] = await Promise.all([this.world.digestOf(this.where()), this.command('verify')]);
    demand(
      digest === this.world.digest,
      `the export differs from that of a straight run: ${digest}, ${this.world.digest}`,
    );
  }

  async close(): Promise<void> {
    for (const { daemon, faults } of this.members) {
      daemon.program.child.kill('SIGCONT');
      await daemon.program.stop('SIGKILL');
      await faults.close();
    }
    const name = new URL(this.url).pathname.slice(1);
    await asAdmin(this.world.server.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).catch(
      () => undefined,
    );
  }

  #begin(name: string, dataDir: string, faults: TcpFaults): Promise<RunningDaemon> {
    const { roles, ranges = 4 } = this.#options.get(name) ?? { roles: 'backfill' };
    const flags = ['--store', faults.url, '--roles', roles, '--backfill-parallel-ranges', String(ranges)];
    return listening(new Program(startArguments(this.world.devnet, dataDir, ...flags)));
  }

  #lastWords(): string {
    return this.members
      .map(({ name, daemon }) => `${name}: ${tail(daemon.program.stdout)}${tail(daemon.program.stderr)}`)
      .join('\n');
  }
}

function tail(text: string): string {
  return text.slice(-600);
}
