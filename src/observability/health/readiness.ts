/** Whether a reason is part of a normal start, catch-up and stop, or something to look into. */
type Severity = 'ordinary' | 'trouble';

interface CodeInfo {
  readonly severity: Severity;
  readonly cause: string;
  readonly mend: string;
}

/**
 * Every reason for not being ready: its cause, and what to do. Stable names: alert rules depend on them. docs/readiness.md is generated
 * from here.
 */
export const readinessCodes = {
  starting: {
    severity: 'ordinary',
    cause: 'Not all parts are up, or no node has told its head yet.',
    mend: 'Wait. What keeps it waiting is in the message, and after some seconds in a code of its own.',
  },
  stopping: { severity: 'ordinary', cause: 'The daemon was told to stop.', mend: 'Nothing.' },
  behind: {
    severity: 'ordinary',
    cause: 'More than `ready.maxLag` heights behind the head.',
    mend: 'Wait. `status` tells rate and ETA; a standstill has a code of its own beside this one.',
  },
  upstream_unreachable: {
    severity: 'trouble',
    cause: 'No node answers: connections fail, or calls get no answer.',
    mend: 'See that the nodes named in the message run and can be reached from here, or name others (`--access-node`).',
  },
  upstream_refusing: {
    severity: 'trouble',
    cause: 'Nodes answer what is needed next with errors, or hold us back by rate limits.',
    mend: "Read the node's words in the message; ask its operator, or name another `--access-node`.",
  },
  upstream_invalid: {
    severity: 'trouble',
    cause:
      'What nodes give next is wrong: it does not hash to its id, is not what was asked for, or cannot be read.',
    mend: 'Nothing wrong is stored. Name another `--access-node`, and tell the operator of the one in the message.',
  },
  edi_unavailable: {
    severity: 'trouble',
    cause:
      'Only execution data may be used (`ediOnly`), and no node gives what is needed next: refused, pruned, wrong, not offered, or not sealed yet.',
    mend: 'Name a node that serves it (`--edi-node`), or leave `--edi-only` out.',
  },
  parent_mismatch: {
    severity: 'trouble',
    cause:
      "No node has a block that continues the latest stored one: the nodes' chain is another than the stored one.",
    mend: 'The message names the height to `rewind` to. Where the nodes are wrong, name others.',
  },
  not_vouched: {
    severity: 'trouble',
    cause: 'No node has the last block of a spork that the spork table names.',
    mend: 'Name an `--access-node` that has it; the message says which block.',
  },
  chain_replaced: {
    severity: 'trouble',
    cause: 'The nodes serve another chain than the stored one, at heights that are indexed.',
    mend: 'Name nodes of the right chain; or start over with another `--data-dir`; or `rewind` to where the chains part.',
  },
  head_behind: {
    severity: 'trouble',
    cause: "The nodes' head is far below what is indexed: they are being restored, or lag.",
    mend: 'Wait for the nodes to catch up, or name others.',
  },
  head_stale: {
    severity: 'trouble',
    cause: 'Nodes answer, and the head has not moved for `ready.maxHeadAgeSeconds`.',
    mend: 'Is the network halted? Else the nodes are cut off from it: name others.',
  },
  start_height_ahead: {
    severity: 'trouble',
    cause: 'The store is empty and its first height is above the head of the chain.',
    mend: 'Wait for the chain to come so far, or give a lower `--start-height` and an empty `--data-dir`.',
  },
  unresolvable: {
    severity: 'trouble',
    cause: 'No source could complete a height for `requester.unresolvableAfterMs`. It is still retried.',
    mend: '`explain HEIGHT` tells who was asked and what they said; name a node that has it.',
  },
  store_stalled: {
    severity: 'trouble',
    cause: 'A write to the store has been under way for too long: the disk hangs.',
    mend: 'Look at the disk. SIGTERM stops the daemon all the same.',
  },
  reader_down: {
    severity: 'trouble',
    cause: 'The thread that serves readers has ended or does not answer. Indexing goes on.',
    mend: 'Wait: another one is begun by itself, within seconds. Should it come again, the log says what ended it; report that.',
  },
  disk_low: {
    severity: 'trouble',
    cause: 'Less than 1 GiB and less than a tenth of the disk is free.',
    mend: 'Free some, or move the data directory to a larger disk. A full disk stops the daemon with exit 74; nothing is lost.',
  },
} as const satisfies Readonly<Record<string, CodeInfo>>;

export type ReadinessCode = keyof typeof readinessCodes;

export const allReadinessCodes = Object.keys(readinessCodes) as readonly ReadinessCode[];

/** One reason why the daemon is not ready. */
export interface ReadinessReason {
  readonly code: ReadinessCode;
  /** One sentence for a person, with the numbers of now. */
  readonly message: string;
  readonly height?: number;
  /** Whole seconds since the reason arose. */
  readonly sinceSeconds: number;
}

/** The body of `/readyz`. Ready means: no reason. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly ReadinessReason[];
}

/** A reason as it is found. */
export interface Finding {
  readonly code: ReadinessCode;
  readonly message: string;
  /** The message without ids, for the log, where those belong to the debug level. Default: the message. */
  readonly logged?: string;
  readonly height?: number;
}
