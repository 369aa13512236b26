import { resolve } from 'node:path';
import { coverageOf } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { VerificationMemory } from '../../flow/index.js';
import { SourceTroubleError, verified } from '../../ranges/index.js';
import type { FollowedSource, MigrationSource } from '../../ranges/index.js';
import { OperatorError, programVersion } from '../../runtime/index.js';
import { SCHEMA_VERSION } from '../../storage/index.js';
import type { BlockEntry, HeightRange, SporkRecord, StoreMeta } from '../../storage/index.js';
import { daemonAt, findDaemon, noDaemon } from '../client/findDaemon.js';
import { refusalOf } from '../client/refusals.js';
import type { FoundDaemon } from '../client/findDaemon.js';
import { OLDER_DAEMON, storedPageOf } from '../client/storedPage.js';

interface Page {
  readonly sporks: readonly SporkRecord[];
  readonly blocks: readonly BlockEntry[];
}

/**
 * The index of a running daemon, over its read API. Nothing is trusted: every collection is hashed here, and the code that copies
 * the blocks checks their links. Expected errors: SourceTroubleError; OperatorError (`damage`; `foreign`: of another
 * chain; `no_daemon` from `open`).
 */
export class DaemonIndex implements FollowedSource {
  readonly #find: () => Promise<FoundDaemon | undefined>;
  readonly #chainId: string;
  readonly #signal: AbortSignal;
  readonly #memory = new VerificationMemory();

  private constructor(find: () => Promise<FoundDaemon | undefined>, chainId: string, signal: AbortSignal) {
    this.#find = find;
    this.#chainId = chainId;
    this.#signal = signal;
  }

  /** `from`: the data directory of the daemon, or the address of its API. One that does not answer is refused. */
  static async open(loaded: LoadedConfig, from: string, signal: AbortSignal): Promise<DaemonIndex> {
    const isAddress = /^https?:\/\//.test(from);
    const there = {
      ...loaded,
      config: { ...loaded.config, dataDir: resolve(from), store: undefined },
    };
    // A restarted daemon may listen elsewhere, so its record is read every time.
    const find = (): Promise<FoundDaemon | undefined> =>
      isAddress ? daemonAt(loaded, from.replace(/\/+$/, ''), signal) : findDaemon(there, signal);
    const index = new DaemonIndex(find, loaded.config.chainId, signal);
    if ((await find()) !== undefined) return index;
    if (!isAddress) throw noDaemon(there);
    throw new OperatorError(
      'no_daemon',
      `No daemon answers at ${from}. Start it, or name the address of its API.`,
    );
  }

  async look(): Promise<MigrationSource> {
    const found = await this.#find();
    if (found === undefined) throw noAnswer();
    const { status } = found;
    if (status.chainId !== this.#chainId) {
      throw new OperatorError(
        'foreign',
        `The daemon indexes ${status.chainId}, but the target is for ${this.#chainId}. Name the right --network, or another daemon.`,
      );
    }
    const coverage = coverageOf(status);
    const live = coverage.at(-1);
    const { sporks } =
      live === undefined ? { sporks: [] } : await this.#page(found, { from: live.to, to: live.to });
    const meta: StoreMeta = {
      ...{ schemaVersion: SCHEMA_VERSION, chainId: this.#chainId, firstHeight: live?.from ?? 0 },
      ...{ createdBy: programVersion(), sporks },
    };
    return {
      meta: () => meta,
      coverage: () => coverage,
      // The daemon fills in its own plans, and the result is copied.
      plans: () => [],
      blocks: (range) => this.#blocks(found, range),
    };
  }

  async #blocks(found: FoundDaemon, { from, to }: HeightRange): Promise<readonly BlockEntry[]> {
    const all: BlockEntry[] = [];
    while (from + all.length <= to) {
      const { blocks } = await this.#page(found, { from: from + all.length, to });
      if (blocks.length === 0)
        throw new SourceTroubleError('The daemon sent no blocks for heights that it has.');
      all.push(...blocks);
    }
    return all;
  }

  async #page(found: FoundDaemon, { from, to }: HeightRange): Promise<Page> {
    const answer = await found.read(`/export?from=${from}&to=${to}&form=stored`, this.#signal);
    if (answer === undefined) throw noAnswer();
    if (answer.status !== 200) {
      throw new SourceTroubleError(`The daemon refuses height ${from}: ${refusalOf(answer).error.message}`);
    }
    const page = storedPageOf(answer.bytes);
    if (page === undefined) throw new SourceTroubleError(OLDER_DAEMON);
    const blocks = page.blocks.map((given, index) => verified(from + index, given, this.#memory));
    return { sporks: page.sporks, blocks };
  }
}

function noAnswer(): SourceTroubleError {
  return new SourceTroubleError('The daemon does not answer. Start it; until then it is asked again.');
}
