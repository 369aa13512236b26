import { daemonSettings, devnetSettings, type Settings } from '../config/index.js';
import type { Command, Run } from './command.js';
import * as flags from './arguments/flags.js';

/** Adds defaults to a command. The type ties its own flags to those that its code takes. */
function command<Own extends Settings>(
  name: string,
  about: Pick<Command, 'summary'> &
    Partial<Command> & { readonly ownFlags?: Own; readonly load: () => Promise<Run<Own>> },
): Command {
  return { name, positionals: [], settings: {}, ownFlags: {}, ...about };
}

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [
  command('start', {
    summary: 'Run the daemon.',
    settings: daemonSettings,
    load: async () => (await import('./commands/start.js')).start,
  }),
  command('status', {
    summary: 'Show what a running daemon is doing, and why.',
    details: 'Without flags, it asks the daemon of ./data/mainnet.',
    settings: flags.daemonAddressSettings,
    ownFlags: flags.statusFlags,
    load: async () => (await import('./commands/status.js')).status,
  }),
  command('get', {
    summary: 'Print one block, collection or transaction, or the transactions of an account, as JSON.',
    details: 'A block can also be latest (or final: the newest indexed) or sealed.',
    positionals: [flags.getKinds, '<id, height or address>'],
    settings: flags.daemonAddressSettings,
    ownFlags: flags.getFlags,
    load: async () => (await import('./commands/lookups.js')).get,
  }),
  command('prove', {
    summary: 'Print what proves a block, collection or transaction to somebody who trusts one block ID.',
    details:
      'One JSON document, which check-proof checks, or docs/examples/check-proof.mjs without this program (docs/proofs.md).\n' +
      'Exit code 66: it is not indexed, or a block on the way to --to is stored without a proof.',
    positionals: ['<height|id>'],
    settings: flags.daemonAddressSettings,
    ownFlags: flags.proveFlags,
    load: async () => (await import('./commands/prove.js')).prove,
  }),
  command('check-proof', {
    summary: 'Check a proof document, without a store, a daemon or a network.',
    details:
      'Says what follows from which block. - reads what prove prints from standard input.\n' +
      'Exit code 0: it holds. Exit code 65: it does not; what does not fit is named.',
    positionals: ['<file>'],
    ownFlags: flags.checkProofFlags,
    load: async () => (await import('./commands/checkProof.js')).checkProof,
  }),
  command('explain', {
    summary: 'Explain why a height or ID is present or missing.',
    details:
      'A running daemon also says what is missing, which nodes were asked, when, and what they answered.\n' +
      'Exit code 0: explained. Exit code 66: nothing indexed or in progress has this ID.',
    positionals: ['<height|id>'],
    settings: flags.daemonAddressSettings,
    ownFlags: flags.explainFlags,
    load: async () => (await import('./commands/lookups.js')).explain,
  }),
  command('export', {
    summary: 'Write blocks and their transactions as lines of JSON.',
    details:
      'One line per block, one per transaction, and a closing line with counts and the SHA-256 of all lines above it, ' +
      'as head -n -1 FILE | sha256sum prints. docs/command-line.md shows them. Progress goes to standard error.',
    settings: flags.daemonAddressSettings,
    ownFlags: flags.exportFlags,
    load: async () => (await import('./commands/exportBlocks.js')).exportBlocks,
  }),
  command('backfill', {
    summary: 'Fill in history below the live range: plan, show, pause or cancel it.',
    details:
      'plan --from H|root|spork:NAME [--to H], or plan --everything: fills in history while the daemon follows the head. status ' +
      'shows progress. pause, resume and cancel take the number of a plan; without one they apply to every plan. redrive runs ' +
      'disputed ranges again. kill ends a worker on a database, named by the beginning of its id, or all of them. ' +
      'A running daemon takes commands through a socket in its data directory. Without one, the command ' +
      'changes the store, and the next daemon picks it up (docs/scale-out.md).',
    positionals: [flags.backfillActions, '[plan or worker]'],
    settings: flags.daemonAddressSettings,
    ownFlags: flags.backfillFlags,
    load: async () => (await import('./commands/backfill.js')).backfill,
  }),
  command('workers', {
    summary: 'List the processes that share a database, and what each is working on.',
    details:
      'Only for a store in a database (--store). Workers that have stopped or died stay in the list for a day. ' +
      'backfill kill ends one (docs/scale-out.md).',
    settings: flags.storeSettings,
    ownFlags: flags.workersFlags,
    load: async () => (await import('./commands/backfill.js')).workers,
  }),
  command('verify', {
    summary: 'Re-hash the whole store and report what is missing, wrong or surplus.',
    details:
      'Blocks that proof.checkpoint or the spork table names must have the ids that they give.\n' +
      'Exit code 0: no damage. Exit code 65: damage, each problem on a line with the heights it affects. ' +
      'No daemon may be running, unless the store is in a database (--store).',
    settings: { ...flags.storeSettings, 'proof.checkpoint': daemonSettings['proof.checkpoint'] },
    ownFlags: flags.verifyFlags,
    load: async () => (await import('./commands/verify.js')).verify,
  }),
  command('repair', {
    summary: 'Keep what is sound of a damaged store; the daemon fetches the rest again.',
    details:
      'Keeps every sound height, wherever it lies. Lost heights become planned holes, which the daemon fills in from the ' +
      'nodes. Without --yes it changes nothing and says what can be kept. No daemon may be running; on a database (--store), ' +
      'only the leader must be stopped.\n' +
      'Exit code 0: repaired, or nothing to repair. Exit code 65: damage found, but no --yes.',
    settings: flags.storeSettings,
    ownFlags: flags.confirmFlags,
    load: async () => (await import('./commands/upkeep.js')).repair,
  }),
  command('rewind', {
    summary: 'Delete everything above a height. No daemon may be running on the store.',
    settings: flags.storeSettings,
    ownFlags: flags.rewindFlags,
    load: async () => (await import('./commands/upkeep.js')).rewind,
  }),
  command('backup', {
    summary: 'Copy the store, also while a daemon is using it.',
    details:
      'The copy is what a crash at this moment would leave: whole blocks, none missing. Files that never change are hard ' +
      'links where the file system allows it, so a backup takes seconds and hardly any space. Then the copy is opened and its ' +
      'files are checked; verify --data-dir DIR checks every block of it (docs/copies.md).',
    settings: flags.storeSettings,
    ownFlags: flags.backupFlags,
    load: async () => (await import('./commands/copies.js')).backup,
  }),
  command('restore', {
    summary: 'Create a store from a backup, where there is no store yet.',
    details:
      'Every block is read, hashed and checked again before the copy becomes the store: its id and guarantees are proven, and ' +
      'compared with proof.checkpoint and the spork table. An existing store is never replaced. Progress goes to standard error.\n' +
      'Exit code 0: restored. 74: the backup is damaged or of a false chain, as the message says, or a store is there already. 76: another chain.',
    settings: {
      ...flags.storeSettings,
      'proof.mode': daemonSettings['proof.mode'],
      'proof.checkpoint': daemonSettings['proof.checkpoint'],
    },
    ownFlags: flags.restoreFlags,
    load: async () => (await import('./commands/copies.js')).restore,
  }),
  command('migrate', {
    summary: 'Copy the index to another store: from a data directory to PostgreSQL, or back.',
    details:
      'Every block is read, hashed and checked again, and written as the daemon writes it. Plans are copied too. No daemon may ' +
      'run on the target. If interrupted, run it again: heights that the target has are skipped. Put passwords in ' +
      'PGPASSWORD or PGPASSFILE. Progress goes to standard error.\n' +
      'Exit code 0: everything is copied. 65: the source is damaged at the height named. 76: the target holds other data.',
    settings: { network: daemonSettings.network },
    ownFlags: flags.migrateFlags,
    load: async () => (await import('./commands/copies.js')).migrate,
  }),
  command('forget', {
    summary: 'Delete the account index of a store. No daemon may be running on it.',
    details:
      'Blocks, collections and transactions stay. A daemon started with --index-accounts rebuilds the index. ' +
      'If interrupted, the store stays sound: run it again to finish.',
    positionals: [['accounts']],
    settings: flags.storeSettings,
    ownFlags: flags.confirmFlags,
    load: async () => (await import('./commands/upkeep.js')).forget,
  }),
  command('config', {
    summary: 'Show the effective configuration (print), validate it (check), or print the reference (docs).',
    positionals: [flags.configActions],
    settings: daemonSettings,
    load: async () => (await import('./commands/config.js')).config,
  }),
  command('doctor', {
    summary: 'Check nodes, database, clock, disk and exposure, and say what to change.',
    details:
      'Takes the flags of start and checks what start cannot see or says too late, with or without a running daemon. It writes ' +
      'nothing, and ends within minutes even if something hangs.\n' +
      'Exit code 0: no problem. Otherwise the code with which start would end at the first problem, or 69 when no access node answers.',
    settings: daemonSettings,
    ownFlags: flags.doctorFlags,
    load: async () => (await import('./commands/doctor.js')).doctor,
  }),
  command('devnet', {
    summary: 'Run the simulated access node: a seeded chain over real gRPC.',
    details:
      'Any Flow client can use it. The same seed and profile give the same chain on every machine (docs/devnet.md).',
    ownFlags: devnetSettings,
    load: async () => (await import('./commands/devnet.js')).devnet,
  }),
  command('completion', {
    summary: 'Print or install a script that completes commands and flags in a shell.',
    details:
      'install writes it to where the shell looks for it, for your shell or the one named. Without installing: ' +
      'source <(flow-collection-indexer completion bash), the same for zsh; ' +
      'source (flow-collection-indexer completion fish | psub).',
    positionals: [[...flags.shells, flags.INSTALL], '[shell]'],
    ownFlags: flags.completionFlags,
    load: async () => (await import('./commands/completion.js')).completionOf(commands),
  }),
];
