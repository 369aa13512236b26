/** Seeds that failed and are repaired, each with the cause; by what was drawn of a world when they were found, which they keep. */
const found: Readonly<
  Record<string, Readonly<Record<'one spork' | 'several sporks', Readonly<Record<number, string>>>>>
> = {
  atFirst: {
    'one spork': {
      220: 'a block with its right id and parent, but forged guarantees, is waited for until the daemon restarts',
      196: 'after a restart a node that lags tells of a low head, and a block off the chain is taken for one at the tip, which waits for no child',
      4624: 'a flipped bit in the address of a signature by none of the transaction’s signers: the id binds the place of the signer, not his address (by design, SECURITY.md: the simulated network leaves those bytes alone)',
      9089: 'two streams find room in the same instant, and the second reads on when the first has used it up',
      50079:
        'at a start, the quickest node hides the headers, and is believed before the others have said who they are',
    },
    'several sporks': {
      3613: 'execution data of a historic node goes on above the end of its spork, with blocks that the next one discarded, and is held against it',
      2392: 'a node without full collections that allows few calls refuses one of a hundred transactions for its rate, and the collection is begun anew, again and again',
      7264: 'the root of a spork is durable above a gap that the root of the spork before is in: its record was taken for one out of order',
      6551: 'a rate limit lets the next call leave in less time than the clock can tell apart, and the requester looks again and again without time passing',
      7901: 'the only node to tell the id of a spork is asked again while its root is on the way into the store, which is then recorded without id',
      9960: 'a spork that was told of while the store was empty is news when that node is asked again, and its root is stored without its record',
      3247: 'a node of an earlier spork comes, and has to be heard, while the root of the next one is on its way into the store, which is then stored without its record',
      5452: 'the only node of a spork does not answer for the block below a range of history, and tells a wrong parent of its first one, which counts as covered',
    },
  },
  // With proofs, peers, accounts and full disks.
  beforeCertificates: {
    'one spork': {
      700326:
        'a range from height 0 of a network whose nodes do not name its root asks for the block below it, which no node has, for ever',
      700635:
        'of several blocks that are proven afterwards one fails at the stop, and the others read from a closed store',
      701326:
        'a node moves to another chain in the midst of its handshake, and a range of history whose end nothing confirms begins with its blocks, as the two nodes disagree',
    },
    'several sporks': {
      3_003_997:
        'the only node of a spork cannot name its root in one handshake, and the root block, read before, is stored without the record of its spork',
    },
  },
  // Consensus nodes sign in some worlds.
  today: {
    'one spork': {
      1: 'the anchor is proven afterwards while the head stands still, and nothing that follows from it is proven until a block comes',
      8_005_674:
        'what finality rests on cannot be written, and the daemon, which is caught up, goes on with a store that writes nothing more',
      9_001_582:
        'in the turn in which a process dies its code goes on and begins a stream, which nobody ends (the simulated network let it)',
      9_002_268:
        'the node that is asked about a streamed block at the tip gives a forged one, and the block off the chain is believed, though others could say so',
      9_021_513:
        'a node that tells of a spork which is not is believed while the other is away, and the spork is recorded, though its root is proven to be another block',
      9_032_352:
        'a flipped bit in the tag of extension data of one zero byte, which no id binds (by design, SECURITY.md: the simulated network leaves those bytes alone)',
      9_070_185:
        'an honest block that does not link to a lie below it is held against its node while no node tells of the block below',
      9_071_828:
        'of two blocks below a range one is taken, and an honest block that links to the other is held against its node',
    },
    'several sporks': {
      8_003_323:
        'the nodes of an earlier spork are identified a moment after its blocks were to be proven, and these are left alone for ten minutes',
      9_004_725:
        'of two historic nodes the quicker one hides the headers, and its blocks are taken unproven while the other one is still in its handshake',
      8_008_623:
        'the only node of a spork cannot say its version in the handshake, and the root is recorded without the id of its spork, which no later handshake adds',
      8_005_684:
        'no node names its spork in the minute for which a new store waits, and the store begins without that record (by design: a later block adds it, and until then it is not held against the store)',
    },
  },
};

export const knownBadSeeds = Object.entries(found).flatMap(([drawn, worlds]) =>
  Object.entries(worlds).flatMap(([over, causes]) =>
    Object.entries(causes).map(([seed, cause]) => {
      return { seed: Number(seed), cause, drawn, crossesSporks: over === 'several sporks' };
    }),
  ),
);

/** A seed whose world was drawn before there were certificates. */
export function isUnsigned(seed: number): boolean {
  return knownBadSeeds.some((known) => known.seed === seed && known.drawn !== 'today');
}

/** A seed whose world has none of what worlds were given since: so it goes on showing its cause. */
export function keepsItsWorld(seed: number): boolean {
  return knownBadSeeds.some((known) => known.seed === seed && known.drawn === 'atFirst');
}
