/** The states of an access node. */
export const endpointStates = ['unknown', 'healthy', 'failing', 'set_aside', 'foreign'] as const;

/** Ordinary: part of a normal start, catch-up or stop. Trouble: something to look into. */
type Severity = 'ordinary' | 'trouble';

interface CodeInfo {
  readonly severity: Severity;
  readonly cause: string;
  readonly fix: string;
  /** Codes that cannot hold together with it. They are not reported while it holds. */
  readonly excludes?: readonly string[];
}

/**
 * Every reason for not being ready: its cause, and what to do. Alert rules depend on the names. docs/readiness.md
 * is generated from here.
 */
export const readinessCodes = {
  starting: {
    severity: 'ordinary',
    cause: 'Not everything has started, or no node has reported its head yet.',
    fix: 'Wait. The message says what it is waiting for; after some seconds a second code does too.',
  },
  stopping: { severity: 'ordinary', cause: 'The daemon was told to stop.', fix: 'Nothing.' },
  behind: {
    severity: 'ordinary',
    cause: 'More than `ready.maxLag` heights behind the head.',
    fix: 'Wait. `status` shows rate and ETA; a standstill has a second code. A head that only one node reports may be false.',
  },
  upstream_unreachable: {
    severity: 'trouble',
    cause: 'No node answers, except to say that it lacks the data: connections fail or calls time out.',
    fix: 'Check that the nodes in the message run and can be reached from here, or name others (`--access-node`).',
  },
  upstream_refusing: {
    severity: 'trouble',
    cause:
      'Nodes answer what is needed next with errors or rate limits, or refuse the metadata that calls to them carry.',
    fix: 'The message quotes the node: ask its operator, correct `--access-metadata-file`, or name another `--access-node`.',
    excludes: ['upstream_unreachable'],
  },
  upstream_invalid: {
    severity: 'trouble',
    cause:
      'Nodes send wrong data: it does not hash to its id, is not what was requested, or cannot be decoded.',
    fix: 'Wrong data is never stored. Name another `--access-node`, and tell the operator of the node in the message.',
    excludes: ['upstream_unreachable'],
  },
  unproven: {
    severity: 'trouble',
    cause:
      'A block that is needed next cannot be proven, and `proof.mode` is `required`, or another node may have a proof.',
    fix: 'Name a node that sends whole blocks (`--access-node`), update the program if the message says so, or set `--proof-mode auto`.',
    excludes: ['upstream_unreachable'],
  },
  edi_unavailable: {
    severity: 'trouble',
    cause:
      'Only execution data may be used (`ediOnly`), and no node provides what is needed next: refused, pruned, wrong, not offered, or not sealed yet.',
    fix: 'Name a node that serves it (`--edi-node`), or drop `--edi-only`.',
  },
  parent_mismatch: {
    severity: 'trouble',
    cause:
      "No node has a block that continues the latest stored one: the nodes' chain differs from the stored one.",
    fix: '`rewind` to the height in the message. If the nodes are wrong, name others.',
  },
  proof_failed: {
    severity: 'trouble',
    cause:
      'The newest stored blocks hold a certificate that two thirds of the consensus nodes did not sign: the nodes gave a chain that the network may not have.',
    fix: '`rewind` to the height in the message, and name nodes that follow the chain. If all nodes give this chain, update the program.',
  },
  not_vouched: {
    severity: 'trouble',
    cause:
      'No node has the last block of a spork that the spork table names; or nodes claim a spork that the table lacks, and others can neither confirm nor contradict it.',
    fix: 'Name an `--access-node` that has the block in the message; or confirm the spork with `--access-spork-root`. Usually it is decided within a minute.',
  },
  chain_replaced: {
    severity: 'trouble',
    cause: 'At indexed heights, the nodes serve a chain that differs from the stored one.',
    fix: 'Name nodes of the right chain, start over with another `--data-dir`, or `rewind` to where the chains diverge.',
    // Nodes that answer are asked for nothing more, so what they have of our chain is unknown.
    excludes: [
      ...['upstream_unreachable', 'parent_mismatch', 'not_vouched', 'edi_unavailable'],
      ...['behind', 'head_behind', 'head_stale', 'start_height_ahead'],
    ],
  },
  head_behind: {
    severity: 'trouble',
    cause:
      "The nodes' head is far below the indexed heights, or below a head that was reported before: they are being restored, lag, or started over, or that head was false.",
    fix: 'Wait for the nodes to catch up, or name others. A false head is forgotten once its node, and another node if there is one, have reported a lower one for a minute; otherwise by a restart.',
    excludes: ['behind', 'head_stale'],
  },
  head_stale: {
    severity: 'trouble',
    cause: 'Nodes answer, but the head has not moved for `ready.maxHeadAgeSeconds`.',
    fix: 'Check whether the network is halted. If not, the nodes are cut off from it: name others.',
  },
  start_height_ahead: {
    severity: 'trouble',
    cause: "The store is empty, and its first height is above the chain's head.",
    fix: 'Wait for the chain to get there, or use a lower `--start-height` and an empty `--data-dir`.',
    excludes: ['behind'],
  },
  unresolvable: {
    severity: 'trouble',
    cause: 'No source has completed a height for `requester.unresolvableAfterMs`. It is still retried.',
    fix: '`explain HEIGHT` shows who was asked and what they said; name a node that has it.',
  },
  store_stalled: {
    severity: 'trouble',
    cause: 'A write to the store has taken too long: the disk hangs, or the database is still at work on it.',
    fix: 'Check the disk, or `pg_stat_activity`. SIGTERM still stops the daemon.',
  },
  database_unreachable: {
    severity: 'trouble',
    cause:
      'The database that holds the index (`store`), or a pooler before it, does not answer, answers with an error, or takes no writes.',
    fix: 'The message quotes it. Fix the database, or the connection to it. Nothing is lost: what waits resumes on its own.',
  },
  leader_lost: {
    severity: 'trouble',
    cause:
      'None of the processes that share the database has led for more than 12 s, so none follows the chain. What is indexed is still served.',
    fix: 'Start a process with the role `live`, or find out why those that have it do not lead: `workers` lists them, and `/readyz` of each says more.',
  },
  reader_down: {
    severity: 'trouble',
    cause: 'The reader thread has ended or does not answer. Indexing continues.',
    fix: 'Wait: it is replaced within seconds. If its files were replaced by an upgrade, restart the daemon. If this happens again, report what the log says ended it.',
  },
  descriptors_low: {
    severity: 'trouble',
    cause:
      'Almost no more files or connections can be opened: the limit of open files was lowered while the daemon runs, or the system has reached its own. Nothing is lost: whatever needs one waits, and resumes on its own.',
    fix: 'Raise the limit that the message names, or end what uses the files up. `process_open_fds` and `connections` show what is open.',
  },
  disk_low: {
    severity: 'trouble',
    cause:
      'Less than 1 GiB and less than a tenth of the disk is free. Below `disk.minFreeBytes` indexing pauses, as the message says; reads go on.',
    fix: 'Free some space, or move the data directory to a larger disk. A paused daemon resumes once there is room.',
  },
} as const satisfies Readonly<Record<string, CodeInfo>>;

export type ReadinessCode = keyof typeof readinessCodes;

export const allReadinessCodes = Object.keys(readinessCodes) as readonly ReadinessCode[];

/** The findings without those that another one excludes; at most one for each code, the first. */
export function consistent(findings: readonly Finding[]): readonly Finding[] {
  const byCode = new Map(findings.toReversed().map((finding) => [finding.code, finding]));
  const excluded = new Set(
    [...byCode.keys()].flatMap((code): readonly string[] => {
      const info: CodeInfo = readinessCodes[code];
      return info.excludes ?? [];
    }),
  );
  return findings.filter((finding) => byCode.get(finding.code) === finding && !excluded.has(finding.code));
}

/** One reason why the daemon is not ready. */
export interface ReadinessReason extends Finding {
  /** Whole seconds since the reason arose. */
  readonly sinceSeconds: number;
}

/** The body of `/readyz`. Ready means no reasons. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly ReadinessReason[];
}

/** A reason, without its age. */
export interface Finding {
  readonly code: ReadinessCode;
  /** One sentence for people, with current numbers. */
  readonly message: string;
  readonly height?: number;
}
