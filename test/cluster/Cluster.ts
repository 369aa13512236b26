import { asAdmin } from '../support/postgresServer.js';
import { eventually, Program, scratchDirectory } from '../support/program.js';
import { listening, startArguments, type RunningDaemon } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';
import { TcpFaults } from '../support/tcpFaults.js';
import { demand } from '../support/campaign.js';
import { run, type World } from './World.js';

const SCENE_LIMIT_MS = 400_000;

export interface Member {
  readonly name: string;
  readonly dataDir: string;
  readonly faults: TcpFaults;
  readonly flags: readonly string[];
  daemon: RunningDaemon;
}

export class Cluster {
  readonly world: World;
  readonly url: string;
  readonly members: Member[] = [];
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

  /** It fills in history, `ranges` at once, unless it has other roles. */
  async start(name: string, { roles = 'backfill', ranges = 4 } = {}): Promise<Member> {
    const faults = await TcpFaults.before(this.url);
    const dataDir = scratchDirectory();
    const flags = ['--store', faults.url, '--roles', roles, '--backfill-parallel-ranges', String(ranges)];
    const member: Member = { name, dataDir, faults, flags, daemon: await this.#begin(dataDir, flags) };
    this.members.push(member);
    return member;
  }

  async restart(member: Member): Promise<void> {
    member.daemon = await this.#begin(member.dataDir, member.flags);
  }

  async startLeader(): Promise<Member> {
    const leader = await this.start('leader', { roles: 'live,api' });
    await this.until('the live range has a block', async () => (await this.coverage()).length > 0);
    return leader;
  }

  /** Likewise, and four that fill in history, four ranges each. */
  async startUsual(): Promise<{ readonly leader: Member; readonly workers: readonly Member[] }> {
    const leader = await this.startLeader();
    const workers: Member[] = [];
    for (const name of ['one', 'two', 'three', 'four']) workers.push(await this.start(name));
    return { leader, workers };
  }

  where(): string[] {
    return [...storeFlags(scratchDirectory()), '--store', this.url];
  }

  command(...words: string[]): Promise<string> {
    return run([...words, ...this.where()]);
  }

  async query<Column extends string>(sql: string): Promise<Readonly<Record<Column, number>>[]> {
    const rows = (await asAdmin(this.url, sql)).rows as Record<Column, string>[];
    return rows.map((row) => {
      const numbers = Object.entries<string>(row).map(([name, value]) => [name, Number(value)]);
      return Object.fromEntries(numbers) as Record<Column, number>;
    });
  }

  coverage() {
    return this.query<'from' | 'to'>(
      'SELECT from_height AS from, to_height AS to FROM flow.coverage ORDER BY from_height',
    );
  }

  /** `epoch` counts those who took a range. */
  openRanges() {
    return this.query<'from' | 'next' | 'epoch'>(
      'SELECT from_height AS from, next_height AS next, epoch FROM flow_store.open_range ORDER BY from_height',
    );
  }

  async plans(): Promise<number | undefined> {
    const [row] = await this.query<'count'>('SELECT count(*) FROM flow_store.plan');
    return row?.count;
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

  /** Every scene must come to one whole range, nothing left over, and the export of a straight run. Expected errors: `Verdict`. */
  async judge(): Promise<void> {
    await this.until('the coverage is one range from the root to the head', async () => {
      const [first, ...more] = await this.coverage();
      return first?.from === 0 && first.to >= this.world.lastHeight && more.length === 0;
    });
    await this.until('every plan is done', async () => (await this.plans()) === 0);
    for (const { daemon, name } of this.members) {
      const code = await daemon.program.stop();
      // Those that the scene has ended keep the code of then.
      demand(code === 0 || code === 'SIGKILL', `${name} ended with ${code}: ${tail(daemon.program.stdout)}`);
    }
    const [rows] = await this.query<'blocks' | 'heights'>(
      `SELECT count(*) AS blocks, count(DISTINCT height) AS heights FROM flow_store.block
        WHERE height <= ${this.world.lastHeight}`,
    );
    const wanted = this.world.lastHeight + 1;
    const others = `${rows?.blocks} rows of ${rows?.heights} blocks, not ${wanted}`;
    demand(rows?.blocks === wanted && rows.heights === wanted, others);
    demand((await this.openRanges()).length === 0, 'a range is open still');
    // Each reads all of it, and takes longer than most scenes.
    const [digest] = await Promise.all([this.world.digestOf(this.where()), this.command('verify')]);
    const differs = `the export differs from that of a straight run: ${digest}, ${this.world.digest}`;
    demand(digest === this.world.digest, differs);
  }

  async close(): Promise<void> {
    for (const { daemon, faults } of this.members) {
      daemon.program.child.kill('SIGCONT');
      await daemon.program.stop('SIGKILL');
      await faults.down();
    }
    const name = new URL(this.url).pathname.slice(1);
    await asAdmin(this.world.server.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).catch(
      () => undefined,
    );
  }

  #begin(dataDir: string, flags: readonly string[]): Promise<RunningDaemon> {
    return listening(new Program(startArguments(this.world.devnet, dataDir, ...flags)));
  }

  #lastWords(): string {
    return this.members
      .map(({ name, daemon }) => `${name}: ${tail(daemon.program.stdout)}${tail(daemon.program.stderr)}`)
      .join('\n');
  }
}

const tail = (text: string): string => text.slice(-600);
