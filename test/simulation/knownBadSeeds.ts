/** Seeds that fail, each with the cause. One that is repaired stays: it is the shortest test of its cause. */
export const knownBadSeeds: readonly {
  readonly seed: number;
  readonly cause: string;
  readonly isFixed: boolean;
  /** Whether its world crosses from spork to spork: it keeps that, so that it goes on showing its cause. */
  readonly crossesSporks: boolean;
  /** Found when worlds were drawn as they are today: with proofs, peers, accounts and full disks. */
  readonly isDrawnToday?: boolean;
  /** Found since consensus nodes sign in some worlds. */
  readonly hasCertificates?: boolean;
}[] = [
  {
    seed: 220,
    cause:
      'a block with its right id and parent, but forged guarantees, is waited for until the daemon restarts',
    isFixed: true,
    crossesSporks: false,
  },
  {
    seed: 196,
    cause:
      'after a restart a node that lags tells of a low head, and a block off the chain is taken for one at the tip, which waits for no child',
    isFixed: true,
    crossesSporks: false,
  },
  {
    seed: 4624,
    cause:
      'a flipped bit in the address of a signature by none of the transaction’s signers: the id binds the place of the signer, not his address (by design, SECURITY.md: the simulated network leaves those bytes alone)',
    isFixed: true,
    crossesSporks: false,
  },
  {
    seed: 3613,
    cause:
      'execution data of a historic node goes on above the end of its spork, with blocks that the next one discarded, and is held against it',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 2392,
    cause:
      'a node without full collections that allows few calls refuses one of a hundred transactions for its rate, and the collection is begun anew, again and again',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 7264,
    cause:
      'the root of a spork is durable above a gap that the root of the spork before is in: its record was taken for one out of order',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 6551,
    cause:
      'a rate limit lets the next call leave in less time than the clock can tell apart, and the requester looks again and again without time passing',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 7901,
    cause:
      'the only node to tell the id of a spork is asked again while its root is on the way into the store, which is then recorded without id',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 9960,
    cause:
      'a spork that was told of while the store was empty is news when that node is asked again, and its root is stored without its record',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 3247,
    cause:
      'a node of an earlier spork comes, and has to be heard, while the root of the next one is on its way into the store, which is then stored without its record',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 5452,
    cause:
      'the only node of a spork does not answer for the block below a range of history, and tells a wrong parent of its first one, which counts as covered',
    isFixed: true,
    crossesSporks: true,
  },
  {
    seed: 9089,
    cause: 'two streams find room in the same instant, and the second reads on when the first has used it up',
    isFixed: true,
    crossesSporks: false,
  },
  {
    seed: 50079,
    cause:
      'at a start, the quickest node hides the headers, and is believed before the others have said who they are',
    isFixed: true,
    crossesSporks: false,
  },
  {
    seed: 700326,
    cause:
      'a range from height 0 of a network whose nodes do not name its root asks for the block below it, which no node has, for ever',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
  },
  {
    seed: 700635,
    cause:
      'of several blocks that are proven afterwards one fails at the stop, and the others read from a closed store',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
  },
  {
    seed: 701326,
    cause:
      'a node moves to another chain in the midst of its handshake, and a range of history whose end nothing confirms begins with its blocks, as the two nodes disagree',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
  },
  {
    seed: 3003997,
    cause:
      'the only node of a spork cannot name its root in one handshake, and the root block, read before, is stored without the record of its spork',
    isFixed: true,
    crossesSporks: true,
    isDrawnToday: true,
  },
  {
    seed: 1,
    cause:
      'the anchor is proven afterwards while the head stands still, and nothing that follows from it is proven until a block comes',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 8_005_674,
    cause:
      'what finality rests on cannot be written, and the daemon, which is caught up, goes on with a store that writes nothing more',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 8_003_323,
    cause:
      'the nodes of an earlier spork are identified a moment after its blocks were to be proven, and these are left alone for ten minutes',
    isFixed: true,
    crossesSporks: true,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 9_001_582,
    cause:
      'in the turn in which a process dies its code goes on and begins a stream, which nobody ends (the simulated network let it)',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 9_002_268,
    cause:
      'the node that is asked about a streamed block at the tip gives a forged one, and the block off the chain is believed, though others could say so',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 9_004_725,
    cause:
      'of two historic nodes the quicker one hides the headers, and its blocks are taken unproven while the other one is still in its handshake',
    isFixed: true,
    crossesSporks: true,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 8_008_623,
    cause:
      'the only node of a spork cannot say its version in the handshake, and the root is recorded without the id of its spork, which no later handshake adds',
    isFixed: true,
    crossesSporks: true,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 8_005_684,
    cause:
      'no node names its spork in the minute for which a new store waits, and the store begins without that record (by design: a later block adds it, and until then it is not held against the store)',
    isFixed: true,
    crossesSporks: true,
    isDrawnToday: true,
    hasCertificates: true,
  },
  {
    seed: 9_021_513,
    cause:
      'a node that tells of a spork which is not is believed while the other is away, and the spork is recorded, though its root is proven to be another block',
    isFixed: true,
    crossesSporks: false,
    isDrawnToday: true,
    hasCertificates: true,
  },
];

/** A seed whose world was drawn before there were certificates. */
export function isUnsigned(seed: number): boolean {
  return knownBadSeeds.some((known) => known.seed === seed && known.hasCertificates !== true);
}

/** A seed whose world has none of what worlds were given since: so it goes on showing its cause. */
export function keepsItsWorld(seed: number): boolean {
  return knownBadSeeds.some((known) => known.seed === seed && known.isDrawnToday !== true);
}
