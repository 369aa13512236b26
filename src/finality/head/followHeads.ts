import { faultOf, NodeChooser, NodeTroubles, outcomeOf, SILENT_AFTER_MS } from '../../access/index.js';
import { readStream, troubleOf, UpstreamError } from '../../access/index.js';
import type { BlockDigest, StreamReader, Way } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import { Listeners, Pause, runTogether, sleep, unlessAborted } from '../../runtime/index.js';
import { BLOCK_CALL, type ChainDependencies } from '../ports.js';

const STREAM = 'SubscribeBlockDigestsFromLatest';
const CALL = 'GetLatestBlockHeader';

/** While no stream is followed: how often nodes are polled, and how often to check whether one streams by now. */
const POLL_MS = 1_000;
/** How often they are polled beside a stream. */
const FRESHNESS_POLL_MS = 2_000;
/** A stream that has not delivered a height this long after a poll saw it is replaced: within ten seconds in all. */
const OWED_MS = 4_000;
/** A head this far above all others is false if it was withdrawn, or the index moved on below it, for this long. */
const DENIED = { heights: 20, forMs: 60_000, doubtedForMs: 600_000 };
/** How long a node's last report counts: each of many nodes is polled within that time. */
const REPORTED_WITHIN_MS = 30_000;
/** Rounds, one a second, that request the block of the first head before that of a lower one. */
const ROUNDS_FOR_HIGHEST = 5;
/** How long a node may take to give it. */
const BLOCK_TIMEOUT_MS = 3_000;
/** Heads whose ids are remembered. */
const MAX_IDS = 16;
/** Delay before a stream is reopened. */
const REOPEN_PAUSES = { minMs: 250, maxMs: 10_000 };

type Dependencies = Pick<
  ChainDependencies,
  'nodes' | 'clock' | 'random' | 'logger' | 'metrics' | 'latestBlock'
>;

export type FinalizationListener = ReturnType<typeof followHeads>;

/**
 * Follows the finalized and the sealed head of the network. Neither falls, whichever node answers (behind a load balancer
 * the reported heights do), unless the head was false or its reporter is of another chain. Streams are judged by what
 * they deliver, not by being open.
 */
export function followHeads(dependencies: Dependencies) {
  const answering = new Listeners();
  const onAnswerAgain = (): void => answering.tell();
  const finalized = followHead({ ...dependencies, name: 'finalized', onAnswerAgain });
  // A sealed block is finalized.
  const mostAt = (node: string) => finalized.recentReports().get(node);
  const sealed = followHead({ ...dependencies, name: 'sealed', onAnswerAgain, mostAt });
  sealed.onRise((height) => finalized.rise(height, sealed.reportedBy));
  const both = [finalized, sealed];
  /** Why no node gives the block of the head at which a new index would begin. */
  let lacked: { readonly height: number; readonly by: NodeTroubles } | undefined;
  /** True where all nodes that can be asked deny the block of a height. */
  const isDenied = async (height: number, by: NodeTroubles, signal: AbortSignal): Promise<boolean> => {
    const asked = dependencies.nodes.forHeight(height, BLOCK_CALL);
    for (const node of asked) {
      const block = node.getBlockByHeight(height, { signal, timeoutMs: BLOCK_TIMEOUT_MS });
      const answer = await outcomeOf(block);
      if (!(answer instanceof UpstreamError) || troubleOf(answer.kind) !== 'denied') return false;
      by.failed(answer);
    }
    return asked.length > 0;
  };
  return {
    finalized,
    sealed,
    /** Resolves when `signal` aborts. No expected errors. */
    run: (signal: AbortSignal): Promise<void> => runTogether(signal, [...finalized.loops, ...sealed.loops]),
    /** A node answers again: both heads are requested at once. */
    wake: (): void => both.forEach((each) => each.wake()),
    /** A node was found to be of another chain: forgets what it reported above this height of ours. */
    forget: (node: string, height: number | undefined): void =>
      both.forEach((each) => each.fall(node, height)),
    /**
     * The first finalized head whose block is not denied: an index that begins there cannot be moved, and a node may be
     * wrong. After some seconds the heads of other nodes count as well. Expected errors: the signal's abort reason.
     */
    firstHead: async (signal: AbortSignal): Promise<number> => {
      const by = new NodeTroubles(dependencies);
      try {
        for (let round = 1; ; round += 1) {
          const head = finalized.height ?? (await unlessAborted<number>(signal, finalized.onRise));
          const lower = round > ROUNDS_FOR_HIGHEST ? [...finalized.recentReports().values()] : [];
          for (const height of new Set([head, ...lower.sort((a, b) => b - a)]))
            if (!(await isDenied(height, by, signal))) return height;
          lacked = { height: head, by };
          await sleep(dependencies.clock, POLL_MS, signal);
        }
      } finally {
        lacked = undefined;
      }
    },
    /** The head whose block `firstHead` waits for, and why it does not arrive; `undefined` while it does not wait. */
    lacked: () => lacked && { height: lacked.height, troubles: lacked.by.all() },
    /** Calls back when a node reports a head after none did for a while. Returns a function that unsubscribes. */
    onAnswerAgain: (callback: () => void): (() => void) => answering.add(callback),
  };
}

/** The stream that is followed, and what it has delivered. */
interface HeadStream extends Way {
  readonly reader: StreamReader<BlockDigest>;
  readonly openedAtMs: number;
  /** The highest that it has delivered; -1: none yet. */
  height: number;
  /** The first height above it that a poll has seen, until the stream reaches it. */
  owed?: { readonly height: number; readonly sinceMs: number } | undefined;
}

/**
 * Follows one head by polls of all nodes in turn and, where a node streams, by its stream, which is quicker. The polls
 * show whether the stream keeps up: an open socket proves nothing. One that delivers nothing, or does not reach the
 * polled head in time, is replaced.
 */
function followHead(
  parts: Dependencies & {
    readonly name: 'finalized' | 'sealed';
    /** A node reported the head, after none had for a while. */
    readonly onAnswerAgain: () => void;
    /** The highest that this node can know of: it replaces any report of the node far above. */
    readonly mostAt?: (node: string) => number | undefined;
  },
) {
  const { clock, latestBlock, logger, metrics, mostAt, name, nodes, onAnswerAgain } = parts;
  const ways = { streamName: name, stream: STREAM, call: CALL, pauses: REOPEN_PAUSES } as const;
  const chooser = new NodeChooser({ ...parts, ...ways });
  const risen = new Listeners<number>();
  const streamPause = new Pause(parts);
  const pollPause = new Pause(parts);
  /** The id reported last for each height. */
  const ids = new Map<number, Identifier>();
  /** The stream that is followed, unless it was left. */
  let stream: HeadStream | undefined;
  let polls = 0;
  let head: number | undefined;
  /** The node that reported this height first. */
  let reportedBy: string | undefined;
  let risenAtMs = -Infinity;
  /** What each node reported last, and when. Bounded by the nodes. */
  const reports = new Map<string | undefined, { readonly height: number; readonly atMs: number }>();
  /** Since when only one node has reported the head, and what was indexed then. */
  let alone: { readonly sinceMs: number; readonly indexed: number } | undefined;
  /** Until when a node counts for no more than the others. Bounded by the nodes. */
  const doubtedUntilMs = new Map<string | undefined, number>();
  let answeredAtMs = -Infinity;

  const ageOf = (atMs: number) => (atMs === -Infinity ? undefined : clock.monotonic() - atMs);

  /** Why this head is unknown; empty while any node reports it. */
  const troubles = () => (clock.monotonic() - answeredAtMs < SILENT_AFTER_MS ? [] : chooser.troubles.all());

  /** A node answers again: ends the pauses. */
  const wake = (): void => {
    streamPause.wake();
    pollPause.wake();
  };

  /** By node: what it reported recently. */
  const recentReports = (): ReadonlyMap<string | undefined, number> => {
    const sinceMs = clock.monotonic() - REPORTED_WITHIN_MS;
    const recent = [...reports].filter(([, { atMs }]) => atMs > sinceMs);
    return new Map(recent.map(([node, { height }]) => [node, height]));
  };

  /** A node reported its head. Returns the height that counts. */
  const report = (said: number, node: string): number => {
    const atMs = clock.monotonic();
    const most = atMs < (doubtedUntilMs.get(node) ?? -Infinity) ? besides(node).most : said;
    const counted = Math.min(most, mostAt?.(node) ?? said);
    const height = said - counted < DENIED.heights ? said : counted;
    reports.set(node, { height, atMs });
    if (head !== undefined && height < head) denied(head);
    return height;
  };

  /** A node reports a head of this height. False if it is not higher. */
  const rise = (height: number, node: string | undefined): boolean => {
    if (height <= (head ?? -1)) return false;
    head = height;
    if (node !== reportedBy) alone = undefined;
    reportedBy = node;
    risenAtMs = clock.monotonic();
    risen.tell(height);
    return true;
  };

  /** A node's reports are void: a head that it reported falls to this height, the highest that still counts. */
  const fall = (node: string | undefined, height: number | undefined): void => {
    ids.clear();
    reports.delete(node);
    if (stream !== undefined && stream.node.name === node) leave(stream);
    if (reportedBy !== node || head === undefined) return;
    head = height && Math.min(height, head);
    wake();
  };

  /** What is indexed, what other nodes reported recently, and the highest of these; not all that is indexed is sealed. */
  const besides = (node: string | undefined) => {
    const indexed = latestBlock()?.height ?? 0;
    const others = [...recentReports()].flatMap(([name, height]) => (name === node ? [] : height));
    const least = mostAt === undefined || others.length === 0 ? indexed : 0;
    return { indexed, others, most: Math.max(least, ...others) };
  };

  /** A node reported a lower head than ours: checks whether ours was false. */
  const denied = (ours: number): void => {
    const nowMs = clock.monotonic();
    const { indexed, others, most } = besides(reportedBy);
    const isAlone = others.length > 0 && most <= ours - DENIED.heights && most - indexed < DENIED.heights;
    alone = isAlone ? (alone ?? { sinceMs: nowMs, indexed }) : undefined;
    const isKept = alone !== undefined && nowMs - alone.sinceMs >= DENIED.forMs && indexed > alone.indexed;
    const highest = isKept ? most : Math.max(most, recentReports().get(reportedBy) ?? Infinity);
    if (!isKept && nowMs - risenAtMs < DENIED.forMs) return;
    if (highest > ours - DENIED.heights || others.length < Math.min(1, nodes.live().length - 1)) return;
    logger.warn({ height: ours, node: reportedBy }, 'a head that no other node reports was false');
    if (isKept) doubtedUntilMs.set(reportedBy, nowMs + DENIED.doubtedForMs);
    alone = undefined;
    fall(reportedBy, highest);
  };

  const follow = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      const way = chooser.choose(nodes.live(STREAM));
      const reason = way && chooser.isStream(way) ? await followStream(way, signal) : undefined;
      if (reason !== undefined) metrics.streamReopens.inc({ stream: name, reason });
      await streamPause.sleep(reason === undefined ? POLL_MS : chooser.pauseMs(), signal);
    }
  };

  /** Resolves with the reason why this stream is no longer followed. Expected errors: the signal's abort reason. */
  const followStream = async (way: Way, signal: AbortSignal): Promise<string> => {
    const { node } = way;
    const sealed = name === 'sealed';
    const open = (ended: AbortSignal) => node.subscribeBlockDigests({ signal: ended, sealed });
    const reader = readStream({ open, signal, clock });
    const followed: HeadStream = { ...way, reader, openedAtMs: clock.monotonic(), height: -1 };
    stream = followed;
    try {
      for (;;) {
        const read = await reader.read();
        if (read === 'silent' || read.done === true) break;
        take(followed, read.value);
      }
      // The stream may have ended to make way for another one.
      const said = `${STREAM} at ${node.name}: the node ended the stream`;
      if (followed.height >= 0 || !chooser.mayStream(node)) chooser.avoid(way);
      else chooser.blame(way, 'refused', 'failing', said);
      return 'ended';
    } catch (error) {
      if (stream !== followed) return 'stale';
      if (!(error instanceof UpstreamError)) throw error;
      chooser.erred(way, error, faultOf(error.kind));
      return error.kind;
    } finally {
      reader.cancel();
      stream = undefined;
    }
  };

  const take = (from: HeadStream, digest: BlockDigest): void => {
    // It was on its way when the stream was left.
    if (stream !== from) return;
    answered(digest);
    const height = report(digest.height, from.node.name);
    if (height <= from.height) return;
    if (from.height < 0) chooser.works(from);
    from.height = height;
    if (height >= (from.owed?.height ?? Infinity)) from.owed = undefined;
    if (rise(height, from.node.name)) chooser.progressed();
  };

  const poll = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      const height = await askNext(signal);
      if (stream !== undefined) judge(stream, height);
      await pollPause.sleep(stream === undefined ? POLL_MS : FRESHNESS_POLL_MS, signal);
    }
  };

  /** Resolves with the head of the next node, unless that alone claims it. Expected errors: the signal's abort reason. */
  const askNext = async (signal: AbortSignal): Promise<number | undefined> => {
    const live = nodes.live(CALL);
    const healthy = live.filter((node) => node.supports(CALL) && node.healthOf(CALL) === 'healthy');
    const asked = healthy.length > 0 ? healthy : live;
    const node = asked[polls++ % asked.length];
    if (node === undefined) return undefined;
    const way = { node, method: CALL } as const;
    const timeoutMs = chooser.patienceMs('call');
    const header = await outcomeOf(node.getLatestBlockHeader(name === 'sealed', { signal, timeoutMs }));
    if (header instanceof UpstreamError) {
      chooser.erred(way, header, faultOf(header.kind));
      return undefined;
    }
    // It was found to be of another chain meanwhile.
    if (!nodes.live(CALL).includes(node)) return undefined;
    if (node.healthOf(CALL) !== 'healthy') nodes.succeeded(node, CALL);
    answered(header);
    const height = report(header.height, node.name);
    rise(height, node.name);
    const { most, others } = besides(node.name);
    return others.length > 0 && height - most >= DENIED.heights ? undefined : height;
  };

  /** Leaves a stream that does not keep up with what polls have seen. */
  const judge = (followed: HeadStream, polledHeight = -1): void => {
    const nowMs = clock.monotonic();
    if (polledHeight > followed.height) followed.owed ??= { height: polledHeight, sinceMs: nowMs };
    const { height, node, openedAtMs, owed } = followed;
    // Every stream begins with a head, even if no poll has seen a higher one.
    const isSilent = height < 0 && nowMs - openedAtMs >= chooser.patienceMs('stream');
    if (!isSilent && (owed === undefined || nowMs - owed.sinceMs < OWED_MS)) return;
    const what = height < 0 ? 'no head came' : `stood at ${height} while ${owed?.height} was known`;
    chooser.blame(followed, 'unreachable', 'stale', `${STREAM} at ${node.name}: ${what}`);
    leave(followed);
  };

  /** It did not keep up, or may be of another chain. */
  const leave = (left: HeadStream): void => {
    stream = undefined;
    left.reader.cancel();
  };

  /** A node reported the head. After a silence, streams are tried again at once. */
  const answered = ({ height, id }: BlockDigest): void => {
    ids.set(height, id);
    const [oldest = height] = ids.keys();
    if (ids.size > MAX_IDS) ids.delete(oldest);
    const wasSilent = troubles().length > 0;
    answeredAtMs = clock.monotonic();
    chooser.answered();
    chooser.troubles.clear();
    if (!wasSilent) return;
    onAnswerAgain();
    streamPause.wake();
  };

  return {
    get height(): number | undefined {
      return head;
    },
    get reportedBy(): string | undefined {
      return reportedBy;
    },
    /** The id that any node reported for a recent head; `undefined`: none did. */
    idAt: (height: number): Identifier | undefined => ids.get(height),
    /** Calls back each time the head rises. Returns a function that unsubscribes. */
    onRise: (callback: (height: number) => void): (() => void) => risen.add(callback),
    recentReports,
    rise,
    fall,
    troubles,
    wake,
    /** Milliseconds since it last rose; `undefined` while unknown. On a quiet chain it grows while `answerAgeMs` does not. */
    advanceAgeMs: (): number | undefined => ageOf(risenAtMs),
    /** Milliseconds since any node reported it, risen or not; `undefined` before the first report. */
    answerAgeMs: (): number | undefined => ageOf(answeredAtMs),
    /** Each runs until its signal aborts. No expected errors. */
    loops: [follow, poll],
  };
}
