import type { OpenChannel } from '../../src/access/index.js';
import { openLifecycle, type Lifecycle } from '../../src/app/lifecycle/openLifecycle.js';
import { openUpstream, runIndexing, type IndexingParts } from '../../src/app/line/runIndexing.js';
import { readableIndex } from '../../src/app/threads/readableIndex.js';
import { DevnetNode, resolveNodeOptions, type FaultRule } from '../../src/devnet/index.js';
import { createMetrics, type Logger, type Metrics } from '../../src/observability/index.js';
import { certificateThread, type CertificateThread } from '../../src/proof/index.js';
import { messageOf, OperatorError, type Clock } from '../../src/runtime/index.js';
import { LevelIndexStore, StorageError, type ShownIndex } from '../../src/storage/index.js';
import { textOf } from '../support/campaign.js';
import { certificatesHere, type Verdicts } from '../support/certificates.js';
import type { Stretch, StretchSpork } from './catalogue.js';
import { Dice } from './Dice.js';
import { isSettled, wrongFinality } from './finality.js';
import { Ledger, SignalRegister } from './Ledger.js';
import { Oracle, Violation, type Watched } from './Oracle.js';
import type { BackendPlan, FalseSpork, Scenario, WorldEvent } from './plan.js';
import { mayLackProof } from './proofs.js';
import { livenessMs } from './scenario.js';
import { RequestReader, SimulatedChannel } from './SimulatedChannel.js';
import { ProcessClock, SimulatedClock } from './SimulatedClock.js';
import { DISK_PATH, SimulatedDatabase, SimulatedDisk } from './SimulatedDisk.js';
import type { ReadFate, WriteFate, WriteStage } from './SimulatedDisk.js';
import { keepsItsWorld } from './knownBadSeeds.js';
import { roomOf } from './SimulatedRoom.js';
import { SimulatedReaders } from './SimulatedReaders.js';
import { backendOf, SimulatedEndpoint, SOUND_LINK } from './SimulatedEndpoint.js';
import { Trace } from './Trace.js';

/** What is made once for all runs of a process: dear to make, and the same for everyone. */
export class Workshop {
  readonly reader = new RequestReader();
  readonly metrics: Metrics = createMetrics({ version: 'simulation', node: process.version });
  readonly #verdicts: Verdicts = new Map();

  /** Verifies on this thread, and each certificate once for all runs. */
  certificates(): CertificateThread {
    return certificateThread(() => certificatesHere(this.#verdicts));
  }
}

export type RunResult = Awaited<ReturnType<World['run']>>;

/** The digest that the store must have at the end, with an account index or without. */
export type Reference = (hasAccounts: boolean) => string | undefined;

export class RunFailure extends Error {
  override readonly name = 'RunFailure';
  readonly tail: readonly string[];
  readonly steps: number;

  constructor(cause: unknown, tail: readonly string[], steps: number) {
    super(cause instanceof Violation ? cause.message : textOf(cause));
    this.tail = tail;
    this.steps = steps;
  }
}

/** No run takes more steps: more is a loop that goes nowhere. */
const MAX_STEPS = 400_000;
/** Longest pause before a process that ended is started again. */
const RESTART_MAX_MS = 20_000;
/** How late the event loop is when it is. */
const LATE_MS = 100;
/** A process that was told to stop ends within this. */
const STOP_WITHIN_MS = 10_000;

/** Faults in which nothing wrong is said. */
const HARMLESS_FAULTS: ReadonlySet<string> = new Set([
  ...['latency', 'error', 'stall', 'cut', 'head_backwards', 'execution_data_lag', 'oversized'],
]);

interface SimulatedProcess {
  readonly clock: ProcessClock;
  readonly lifecycle: Lifecycle;
  readonly database: SimulatedDatabase;
  /** Once the parts that lines share are there. */
  parts?: Pick<IndexingParts, 'backfill' | 'prover'>;
  ledger?: Ledger;
  readers?: SimulatedReaders;
  shown: () => ShownIndex;
  isDead: boolean;
  /** It said that some part did not close in time, and ended all the same. */
  isAbandoned: boolean;
  /** Everything is there: it was started to prove what is not proven. */
  provesOnly: boolean;
  /** A write or a read of it was made to fail. */
  hasDiskFailed: boolean;
  outcome?: { readonly error: unknown };
  /** By when it must have ended, once it is told to. */
  endsByMs: number;
}

interface WorldParts {
  readonly stretch: Stretch;
  readonly workshop: Workshop;
  readonly print?: ((line: string) => void) | undefined;
}

/** A whole run: nodes, network, disk, and one process of the daemon after another, from a seed. */
export class World {
  readonly #scenario: Scenario;
  readonly #stretch: Stretch;
  readonly #workshop: Workshop;
  readonly #clock = new SimulatedClock();
  readonly #trace: Trace;
  readonly #disk = new SimulatedDisk();
  readonly #oracle: Oracle;
  readonly #endpoints: readonly SimulatedEndpoint[];
  readonly #diskDice: Dice;
  readonly #worldDice: Dice;
  readonly #paceDice: Dice;
  /** How often the event loop of a process is late, so that history makes way. */
  readonly #lateShare: number;
  readonly #crashSteps: number[];
  readonly #room: ReturnType<typeof roomOf>;
  readonly #livenessMs: number;
  #head: number;
  #process: SimulatedProcess | undefined;
  #signals: SignalRegister | undefined;
  #processes = 0;
  #steps = 0;
  #isQuiet = false;
  #isFinished = false;
  /** Nothing is left to be proven final. */
  #isSettled: boolean;
  readonly #lags: number[];
  /** Nodes served another chain once: a process may have met nobody else. */
  #hasForeigners = false;
  /** Endpoints that give, or were given, something wrong to say. */
  readonly #mayLie = new Set<string>();

  constructor(scenario: Scenario, { print, ...made }: WorldParts) {
    const { seed } = scenario;
    this.#scenario = scenario;
    ({ stretch: this.#stretch, workshop: this.#workshop } = made);
    this.#trace = new Trace(this.#clock, print);
    this.#oracle = new Oracle({
      ...{ config: scenario.config, stretch: this.#stretch },
      mayLackProof: (height) => mayLackProof(scenario, this.#stretch, height),
      mayMeetForgeries: scenario.endpoints.some(({ faults }) => faults.some(isForgery)),
      ...{ disk: this.#disk, clock: this.#clock, trace: this.#trace },
    });
    this.#diskDice = new Dice(seed, 'disk');
    this.#worldDice = new Dice(seed, 'world');
    this.#paceDice = new Dice(scenario.seed, 'event loop');
    this.#lateShare = this.#paceDice.pick([0, 0.2, 1]);
    this.#crashSteps = [...scenario.crashSteps];
    const isKnown = keepsItsWorld(seed);
    this.#room = roomOf({ quietAtMs: scenario.quietAtMs, isKnown }, new Dice(seed, 'room'));
    this.#isSettled = this.#stretch.signed === undefined;
    this.#livenessMs = livenessMs(scenario, this.#stretch);
    this.#head = scenario.startHead;
    this.#lags = scenario.endpoints.map(() => 0);
    this.#endpoints = scenario.endpoints.map(({ link, name }, index) => {
      const endpoint = new SimulatedEndpoint(
        { name, unbound: this.#stretch.unbound },
        {
          dice: new Dice(seed, `link ${index}`),
          onBug: (error) => this.#oracle.fail(`a bug of the devnet: ${String(error)}`),
        },
      );
      endpoint.link = link;
      return endpoint;
    });
    for (const { faults, link, name } of scenario.endpoints) {
      if (link.corruptShare > 0 || faults.some(({ fault }) => !HARMLESS_FAULTS.has(fault)))
        this.#mayLie.add(name);
    }
    if (scenario.falseSpork !== undefined)
      this.#mayLie.add(scenario.endpoints[scenario.falseSpork.endpoint]!.name);
    for (const [index] of this.#endpoints.entries()) this.#furnish(index, {});
  }

  /** Expected errors: `RunFailure`. */
  async run(reference: Reference | undefined) {
    const { metrics } = this.#workshop;
    metrics.registry.resetMetrics();
    this.#signals = new SignalRegister();
    try {
      return await this.#run(reference);
    } catch (error) {
      throw new RunFailure(error, this.#trace.tail(), this.#steps);
    } finally {
      this.#kill();
      this.#signals.close();
    }
  }

  async #run(reference: Reference | undefined) {
    const { config, disk, endpoints, quietAtMs } = this.#scenario;
    if (this.#trace.isVerbose) {
      const { window, maxProcessing, maxInFlightBytes, ediOnly, edi, requester, access } = config;
      this.#trace.add(
        `scenario ${JSON.stringify({
          ...{ stretch: this.#stretch.name, quietAtMs, window, maxProcessing, maxInFlightBytes, ediOnly },
          ...{ edi, requester, access, disk, endpoints, startHead: this.#scenario.startHead },
        })}`,
      );
    }
    for (const { atMs, event } of this.#scenario.events)
      this.#clock.setTimer(atMs, () => this.#happen(event));
    this.#clock.setTimer(quietAtMs, () => this.#quieten());
    this.#grow();
    this.#start();
    await this.#clock.turn();
    await this.#oracle.afterStep();
    while (!this.#isFinished) {
      if (!this.#clock.step()) this.#oracle.fail('nothing will ever happen again');
      this.#steps += 1;
      await this.#clock.turn();
      this.#process?.ledger?.afterStep();
      await this.#oracle.afterStep();
      while (this.#process?.readers?.follow() === true) await this.#clock.turn();
      await this.#afterStep();
      if (this.#steps > MAX_STEPS) throw new Violation(`no end after ${this.#steps} steps`);
    }
    await this.#oracle.checkCounters(this.#workshop.metrics, this.#mayLie);
    const hasAccounts = this.#hasAccounts;
    const digest = await this.#oracle.finished(reference?.(hasAccounts));
    return {
      ...{ traceHash: this.#trace.hash(), events: this.#trace.events, steps: this.#steps },
      // From the last fault to the end; 0 when the end came before it.
      afterQuietMs: Math.max(0, this.#clock.monotonic() - quietAtMs),
      ...{ virtualMs: this.#clock.monotonic(), processes: this.#processes, digest },
      hasAccounts,
    };
  }

  /** The process in hand, or the last one, keeps an account index. */
  get #hasAccounts(): boolean {
    return this.#processes >= this.#scenario.accountsFrom;
  }

  #start(): void {
    const { metrics, reader } = this.#workshop;
    this.#processes += 1;
    const isProving = this.#processes >= this.#scenario.provenFrom;
    let { config } = this.#scenario;
    if (!isProving) config = { ...config, proof: { ...config.proof, mode: 'off' } };
    this.#trace.add(`process ${this.#processes} starts`);
    this.#signals?.forget();
    // Forgets the calls of the turn in which the last one died: this one may end before it has a store to watch.
    this.#oracle.processEnds();
    const clock = new ProcessClock(this.#clock);
    const logger = this.#listeningLogger(() => (process.isAbandoned = true));
    const lifecycle = openLifecycle({ clock, logger });
    const noted = <T extends { readonly failure?: unknown }>(fate: T): T => {
      if (fate.failure !== undefined) process.hasDiskFailed = true;
      return fate;
    };
    const database = new SimulatedDatabase(this.#disk, {
      clock,
      writeFate: () => noted(this.#writeFate()),
      readFate: () => noted(this.#readFate()),
      onStage: (stage) => this.#onWriteStage(process, stage),
    });
    const process: SimulatedProcess = {
      ...{ clock, lifecycle, database, endsByMs: Infinity },
      ...{ isDead: false, isAbandoned: false, provesOnly: false, hasDiskFailed: false },
      shown: () => {
        throw new Error('nothing is shown yet');
      },
    };
    this.#process = process;
    const random = new Dice(this.#scenario.seed, `process ${this.#processes}`).random;
    const openChannel: OpenChannel = (options) => {
      const endpoint = this.#endpoints.find(({ name }) => name === options.endpoint.name);
      if (endpoint === undefined) throw new Error(`there is no endpoint ${options.endpoint.name}`);
      return new SimulatedChannel(options, {
        ...{ process, endpoint, reader, observer: this.#oracle, worldClock: this.#clock },
      });
    };
    const hasDied = (): boolean => process.isDead;
    const work = async (): Promise<void> => {
      const store = await openStore(database, config.chainId, this.#hasAccounts, { clock, logger });
      if (hasDied()) return;
      lifecycle.onClose('store', () => store.close());
      const watched: Watched = { store, head: () => undefined, line: undefined, history: () => [] };
      this.#oracle.processStarts(watched);
      const lacksAccounts = (store.accounts.coverage()?.missingHeights ?? 0) > 0;
      if (store.meta() !== undefined && store.latestIndexedHeight() >= this.#stretch.stopHeight) {
        const lacksHistory =
          this.#scenario.history !== undefined && store.meta()?.firstHeight !== this.#stretch.firstHeight;
        const lacksProofs = isProving && this.#oracle.lacksProofs;
        const lacksFinality = isProving && this.#stretch.signed !== undefined;
        if (!lacksAccounts && !lacksHistory && !lacksProofs && !lacksFinality) return;
        process.provesOnly = !lacksAccounts && !lacksHistory && !lacksFinality;
        // At its stop height a daemon ends, whatever is proven.
        if (process.provesOnly)
          config = { ...config, roles: ['api'], stopHeight: this.#stretch.stopHeight + 1 };
      }
      const parts = openUpstream(config, {
        ...{ store, lifecycle, clock, random, metrics, logger, openChannel },
        sporks: this.#scenario.sporkTable,
        maxRangeHeights: this.#scenario.history?.rangeHeights,
        loopLateMs: () => (this.#paceDice.chance(this.#lateShare) ? LATE_MS : 0),
        room: this.#room(clock, this.#clock),
        certificates: this.#stretch.signed && this.#workshop.certificates(),
      });
      process.parts = parts;
      process.shown = () => readableIndex(config, { ...parts, replica: undefined }).shown;
      watched.history = () => parts.backfill.running();
      watched.head = () => parts.listener.finalized.height;
      parts.network.onForeign(() => this.#oracle.nodeIsForeign());
      if (this.#isQuiet) this.#redrive();
      const readers = this.#readersOf(process);
      process.readers = readers;
      parts.prover?.onProven(() => readers.notify());
      parts.window.onMoved(() => readers.notify());
      const ledger = new Ledger({ parts, fail: (what) => this.#oracle.fail(what) });
      process.ledger = ledger;
      const indexing = runIndexing(config, parts, (line) => {
        if (line === undefined) return;
        ledger.lineStarts(line);
        this.#oracle.lineStarts(line);
      });
      ledger.opened();
      await indexing;
    };
    const life = async (): Promise<void> => {
      await lifecycle.waitFor('work in hand', work());
      await lifecycle.close();
    };
    life().then(
      () => (process.outcome = { error: undefined }),
      (error: unknown) => (process.outcome = { error }),
    );
  }

  /** They read the disk without the faults of the process, so that its chance is the same with them as without. */
  #readersOf({ clock, shown }: Pick<SimulatedProcess, 'clock' | 'shown'>): SimulatedReaders {
    const database = new SimulatedDatabase(this.#disk, {
      clock,
      writeFate: () => {
        throw new Error('readers do not write');
      },
    });
    return new SimulatedReaders({
      dice: new Dice(this.#scenario.seed, `readers ${this.#processes}`),
      ...{ clock, shown, database, metrics: this.#workshop.metrics },
      durable: () => this.#oracle.watermark,
      fail: (what) => this.#oracle.fail(what),
    });
  }

  /** What the product says of nodes in its log is held against what they are. */
  #listeningLogger(onAbandoned: () => void): Logger {
    const logger = this.#trace.logger();
    return {
      ...logger,
      warn: (fields, message) => {
        logger.warn(fields, message);
        if (message === 'part did not close in time') onAbandoned();
      },
      debug: (fields, message) => {
        logger.debug(fields, message);
        if (message !== 'access node reported') return;
        const { endpoint, fault, detail } = fields as Record<'endpoint' | 'fault' | 'detail', string>;
        if (fault !== 'lied') return;
        if (!this.#mayLie.has(endpoint)) this.#oracle.fail(`${endpoint} never lied: ${detail}`);
        this.#oracle.heldAgainst(endpoint, detail);
      },
    };
  }

  async #afterStep(): Promise<void> {
    const process = this.#process;
    const nowMs = this.#clock.monotonic();
    if (process !== undefined) {
      if (process.outcome !== undefined) {
        this.#ended(process, process.outcome.error);
      } else {
        if (process.provesOnly && !this.#oracle.lacksProofs) process.lifecycle.stop();
        this.#lookAtFinality(process);
        const due = this.#crashSteps.indexOf(this.#steps);
        if (due >= 0) {
          this.#crashSteps.splice(due, 1);
          if (!this.#isQuiet) this.#crash(this.#worldDice.chance(0.5));
        }
        if (process.lifecycle.signal.aborted && process.endsByMs === Infinity)
          process.endsByMs = nowMs + STOP_WITHIN_MS;
        if (nowMs > process.endsByMs) throw new Violation('a process that was told to stop did not end');
      }
    }
    const limitMs = this.#livenessMs;
    if (nowMs > this.#scenario.quietAtMs + limitMs) {
      throw new Violation(
        `stuck at watermark ${this.#oracle.watermark}, short of ${this.#stretch.stopHeight}, ${limitMs.toFixed(0)} ms after the last fault`,
      );
    }
  }

  /** What it says is final is; and with nothing left to prove it may end. */
  #lookAtFinality({ lifecycle, parts, shown }: SimulatedProcess): void {
    const prover = parts?.prover;
    const { mode, finality } = this.#scenario.config.proof;
    if (this.#stretch.signed === undefined || prover === undefined || lifecycle.signal.aborted) return;
    const shownTo = finality === 'proven' ? shown().latestIndexedHeight : -1;
    const wrong = wrongFinality(prover, this.#stretch, shownTo);
    if (wrong !== undefined) this.#oracle.fail(wrong);
    if (!this.#oracle.isComplete) return;
    const isProving = this.#processes >= this.#scenario.provenFrom;
    this.#isSettled = isProving && !this.#oracle.lacksProofs && isSettled(prover, this.#stretch, mode);
    if (this.#isSettled || !isProving) lifecycle.stop();
  }

  #ended(process: SimulatedProcess, error: unknown): void {
    this.#trace.add(`process ${this.#processes} ends ${error === undefined ? 'in order' : messageOf(error)}`);
    if (process.isAbandoned) {
      // It did not wait for its last write: that ends as it does when a process is killed.
      this.#disk.afterCrash({ loses: false });
      this.#oracle.onDurable();
    } else this.#checkClosed(process, error);
    this.#bury(process);
    if (error !== undefined && !this.#isExpected(process, error))
      throw new Violation(`the process failed: ${textOf(error)}`);
    if (error === undefined && this.#oracle.isComplete && !this.#oracle.lacksProofs && this.#isSettled) {
      this.#isFinished = true;
      return;
    }
    this.#startLater();
  }

  #isExpected(process: SimulatedProcess, error: unknown): boolean {
    if (error instanceof StorageError) return process.hasDiskFailed;
    if (!(error instanceof OperatorError)) return false;
    // While the honest nodes are away, the others are all there is.
    if (error.exit === 'foreign') return this.#hasForeigners;
    // While the nodes of earlier sporks are away, or all but the one that says it begins above, nobody has the first height.
    const { served, sporks } = this.#stretch;
    const mayMissTheFirst =
      (served === 'named' && sporks.length > 1) || this.#scenario.falseSpork !== undefined;
    const isAway = error.exit === 'configuration' || error.exit === 'unavailable';
    return isAway && mayMissTheFirst && this.#oracle.watermark === undefined;
  }

  /** Nothing may be left behind by a process that ended by itself. */
  #checkClosed({ clock, database, ledger }: SimulatedProcess, error: unknown): void {
    if (!database.isClosed) throw new Violation('the store is not closed at the end');
    ledger?.ended(error === undefined && this.#oracle.isComplete);
    this.#oracle.throwIfViolated();
    if (clock.pendingTimers > 0) throw new Violation(`${clock.pendingTimers} timers are left at the end`);
    if (this.#oracle.callsInFlight > 0)
      throw new Violation(`${this.#oracle.callsInFlight} calls are under way at the end`);
    for (const { name, underWay } of this.#endpoints)
      if (underWay > 0) throw new Violation(`${name} holds ${underWay} calls and streams open at the end`);
    const { listeners = 0 } = this.#signals ?? {};
    if (listeners > 0) throw new Violation(`${listeners} listeners on signals are left at the end`);
  }

  #crash(losesPower: boolean): void {
    if (this.#process === undefined) return;
    this.#trace.add(`process ${this.#processes} crashes${losesPower ? ', power lost' : ''}`);
    this.#kill();
    this.#disk.afterCrash({ loses: losesPower && this.#worldDice.chance(0.7) });
    this.#oracle.onDurable();
    this.#startLater();
  }

  #kill(): void {
    if (this.#process === undefined) return;
    this.#bury(this.#process);
    for (const endpoint of this.#endpoints) endpoint.reset();
  }

  #bury(process: SimulatedProcess): void {
    this.#process = undefined;
    process.isDead = true;
    process.clock.kill();
    process.database.kill();
    process.readers?.end();
    this.#oracle.processEnds();
  }

  #startLater(): void {
    this.#clock.setTimer(this.#worldDice.magnitude(10, RESTART_MAX_MS), () => this.#start());
  }

  #writeFate(): WriteFate {
    const { slowMs, slowShare, writeFailureShare, writeMs } = this.#scenario.disk;
    const dice = this.#diskDice;
    const isSlow = !this.#isQuiet && dice.chance(slowShare);
    const ms = (): number => (isSlow ? dice.random.next() * slowMs : writeMs * dice.random.next());
    const fails = !this.#isQuiet && dice.chance(writeFailureShare);
    return {
      ...{ writtenMs: ms(), syncedMs: ms(), toldMs: ms() / 10 },
      ...(fails ? { failure: { text: NO_SPACE, isWritten: dice.chance(0.5) } } : {}),
    };
  }

  #readFate(): ReadFate {
    const { readFailureShare, slowMs, slowShare } = this.#scenario.disk;
    const dice = this.#diskDice;
    if (this.#isQuiet) return { takesMs: 0 };
    return {
      takesMs: dice.chance(slowShare) ? (dice.random.next() * slowMs) / 10 : 0,
      ...(dice.chance(readFailureShare) ? { failure: IO_ERROR } : {}),
    };
  }

  #onWriteStage(process: SimulatedProcess, stage: WriteStage): void {
    if (process.isDead) return;
    this.#trace.add(`write ${stage}`);
    if (stage === 'durable') this.#oracle.onDurable();
    if (this.#isQuiet || !this.#diskDice.chance(this.#scenario.disk.crashShare)) return;
    this.#crash(this.#diskDice.chance(0.5));
  }

  /** Puts nodes behind an endpoint, as after a restart. */
  #furnish(index: number, { prunedTo = 0, isOtherChain = false }): void {
    const plan = this.#scenario.endpoints[index]!;
    const { chain: own, lastHeight: endSealedHeight } = this.#sporkOf(index);
    const { rootHeight, endHeight } = own.generator;
    const chain = isOtherChain ? this.#stretch.otherChain : own;
    const faults = [
      ...(this.#isQuiet ? [] : this.#faultsFromNow(plan.faults)),
      ...falseSporkRules(index, this.#scenario.falseSpork),
    ];
    this.#endpoints[index]!.backends = plan.backends.map((backend) => {
      const startHead = this.#headOf(index, backend);
      const options = resolveNodeOptions({
        ...this.#nodeOptions(backend, this.#isLive(index)),
        ...{ indexedBlocks: this.#isPeer(index), rootHeight, endHeight, endSealedHeight, startHead, faults },
        nodeRootHeight: Math.max(rootHeight, Math.min(prunedTo, startHead)),
      });
      return backendOf(new DevnetNode(options, { chain, clock: this.#clock }));
    });
  }

  #nodeOptions(plan: BackendPlan, isLive: boolean) {
    // What has ended is executed.
    const executionDataLag = isLive ? plan.executionDataLag : Math.min(0, plan.executionDataLag);
    const { sealedLag, collectionLagMs, maxStreams, ratePerSecond } = plan;
    return {
      ...{ blockIntervalMs: 1, sealedLag, collectionLagMs, maxStreams, ratePerSecond },
      executionDataLag: this.#isQuiet ? Math.max(0, executionDataLag) : executionDataLag,
      ...{ streams: plan.streams, fullCollections: plan.fullCollections },
      executionData: plan.executionData && !(this.#isQuiet && this.#scenario.endsWithoutExecutionData),
      executionDataSubscriptions: plan.onlyDeprecatedExecutionData ? 'deprecated' : 'all',
    } as const;
  }

  #sporkOf(index: number): StretchSpork {
    return this.#stretch.sporks[this.#scenario.endpoints[index]!.spork]!;
  }

  /** It gives blocks, and nobody asks it for anything else. */
  #isPeer(index: number): boolean {
    const { config, endpoints } = this.#scenario;
    return config.peers.includes(endpoints[index]!.name);
  }

  #isLive(index: number): boolean {
    return this.#sporkOf(index) === this.#stretch.sporks.at(-1);
  }

  #headOf(index: number, { lagHeights }: BackendPlan): number {
    const { endHeight, rootHeight } = this.#sporkOf(index).chain.generator;
    // A spork that has ended stands still.
    if (!this.#isLive(index)) return endHeight;
    const lag = this.#isQuiet ? 0 : lagHeights + this.#lags[index]!;
    return Math.max(rootHeight, this.#head - lag);
  }

  /** Rules count time from the start of their node. */
  #faultsFromNow(rules: readonly FaultRule[]): FaultRule[] {
    const nowMs = Math.round(this.#clock.monotonic());
    return rules
      .filter(({ untilMs }) => (untilMs ?? 0) > nowMs)
      .map((rule) => ({
        ...rule,
        afterMs: Math.max(0, (rule.afterMs ?? 0) - nowMs),
        untilMs: (rule.untilMs ?? 0) - nowMs,
      }));
  }

  /** The chain goes on while somebody says that it has ended. */
  #grow(): void {
    const { falseSpork } = this.#scenario;
    const end = this.#stretch.sporks.at(-1)!.chain.generator.endHeight;
    if (falseSpork === undefined || this.#head >= end) return;
    this.#clock.setTimer(falseSpork.blockEveryMs, () => {
      this.#head += 1;
      this.#moveHeads();
      this.#grow();
    });
  }

  #moveHeads(): void {
    for (const [index, endpoint] of this.#endpoints.entries()) {
      for (const [at, { node }] of endpoint.backends.entries())
        node.head.set(this.#headOf(index, this.#scenario.endpoints[index]!.backends[at]!));
    }
  }

  #happen(event: WorldEvent): void {
    if (this.#isQuiet) return;
    this.#trace.add(`world ${JSON.stringify(event)}`);
    // The live range may begin above history that is yet to be filled in.
    const firstHeight = this.#scenario.history?.below ?? this.#stretch.firstHeight;
    const watermark = this.#oracle.watermark ?? -1;
    const begun = watermark >= firstHeight;
    // Of which spork they are, nodes are believed until the store has crossed into it.
    const hasCrossed =
      'endpoint' in event &&
      watermark >= Math.max(firstHeight, this.#sporkOf(event.endpoint).chain.generator.rootHeight);
    const index = 'endpoint' in event ? event.endpoint : 0;
    const endpoint = this.#endpoints[index]!;
    switch (event.kind) {
      case 'down':
        endpoint.goDown(event.how);
        break;
      case 'up': {
        endpoint.state = 'up';
        const prunedTo = Math.max(0, watermark + event.prunedHeights - 10);
        this.#furnish(index, event.prunedHeights > 0 && begun ? { prunedTo } : {});
        break;
      }
      case 'other_chain':
        // The first block is the anchor of all others, and is taken on trust.
        if (!hasCrossed) break;
        this.#hasForeigners ||= !this.#isPeer(index);
        this.#mayLie.add(endpoint.name);
        endpoint.reset();
        this.#furnish(index, { isOtherChain: true });
        break;
      case 'identity_lie':
        // A store that has not come so far has nothing to hold against it.
        if (!hasCrossed) break;
        this.#hasForeigners = true;
        this.#mayLie.add(endpoint.name);
        for (const { node } of endpoint.backends) node.setFaults([IDENTITY_LIES[event.about]]);
        endpoint.reset();
        break;
      case 'reset':
        endpoint.reset();
        break;
      case 'head':
        this.#head = Math.max(this.#head, event.height);
        this.#moveHeads();
        break;
      case 'lag':
        this.#lags[index] = event.heights;
        this.#moveHeads();
        break;
      case 'wall_jump':
        this.#clock.wallJumpMs += event.ms;
        break;
      case 'crash':
        this.#crash(event.losesPower);
        break;
      case 'terminate':
        this.#process?.lifecycle.stop();
        break;
    }
  }

  /** All faults cease: nodes answer, links carry, the disk works, and the head is where it stays. */
  #quieten(): void {
    this.#trace.add('world quiet');
    this.#isQuiet = true;
    this.#head = Math.max(this.#head, this.#stretch.endHeight);
    for (const [index, endpoint] of this.#endpoints.entries()) {
      endpoint.state = 'up';
      endpoint.link = { ...SOUND_LINK, usualMs: Math.min(50, endpoint.link.usualMs) };
      endpoint.reset();
      this.#furnish(index, {});
    }
    this.#redrive();
  }

  /** What was disputed while nodes lied runs again, as operators would have it. */
  #redrive(): void {
    const { parts, isDead } = this.#process ?? {};
    if (this.#scenario.history === undefined || parts === undefined || isDead === true) return;
    parts.backfill.source.redrive().catch((error: unknown) => {
      // The process may be ending.
      if (!(error instanceof StorageError)) this.#oracle.fail(`redrive failed: ${String(error)}`);
    });
  }
}

/** What the liar does, as long as he is there. */
function falseSporkRules(endpoint: number, falseSpork: FalseSpork | undefined): readonly FaultRule[] {
  if (falseSpork?.endpoint !== endpoint) return [];
  const { rootHeight, isNamed, withholds } = falseSpork;
  const withheld: FaultRule = { method: '*', fault: 'error', code: 'NOT_FOUND', fromHeight: rootHeight };
  const named = isNamed ? ({ named: true } as const) : {};
  const told: FaultRule = { method: 'GetNodeVersionInfo', fault: 'false_spork', rootHeight, ...named };
  return withholds ? [told, withheld] : [told];
}

/** A block under its right id that names a collection which nobody made. */
function isForgery(rule: FaultRule): boolean {
  if (rule.fault === 'hidden_header') return rule.invents === true;
  return rule.fault === 'wrong_body' && /^(?:Get|Subscribe)Block/.test(rule.method);
}

async function openStore(
  database: SimulatedDatabase,
  chainId: string,
  accounts: boolean,
  dependencies: { readonly clock: Clock; readonly logger: Logger },
): Promise<LevelIndexStore> {
  try {
    return await LevelIndexStore.over(database, { path: DISK_PATH, chainId, accounts }, dependencies);
  } catch (error) {
    await database.close();
    throw error;
  }
}

const IDENTITY_LIES: Readonly<Record<'chain' | 'spork', FaultRule>> = {
  chain: { method: 'GetNetworkParameters', fault: 'other_chain' },
  spork: { method: 'GetNodeVersionInfo', fault: 'other_spork' },
};

const NO_SPACE = 'IO error: /simulated/000003.log: No space left on device';
const IO_ERROR = 'IO error: /simulated/000005.ldb: Input/output error';
