import { daemonSettings, devnetSettings } from '../config/index.js';
import type { Command } from './command.js';
import {
  configActions,
  daemonAddressSettings,
  explainFlags,
  exportFlags,
  forgetFlags,
  getFlags,
  getKinds,
  repairFlags,
  rewindFlags,
  shells,
  statusFlags,
  storeSettings,
  verifyFlags,
} from './flags.js';

const none = { positionals: '', maxPositionals: 0, settings: {}, ownFlags: {} } as const;

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [
  {
    ...none,
    name: 'start',
    summary: 'Run the daemon.',
    settings: daemonSettings,
    load: async () => (await import('./commands/start.js')).start,
  },
  {
    ...none,
    name: 'status',
    summary: 'Ask a running daemon what it is doing, and why.',
    details:
      'Without flags it finds the daemon of ./data/<network>, else those that this user runs on this machine: one is shown, ' +
      'several are listed.',
    settings: daemonAddressSettings,
    ownFlags: statusFlags,
    load: async () => (await import('./commands/status.js')).status,
  },
  {
    ...none,
    name: 'get',
    summary: 'Print one block, collection or transaction, or the transactions of an account, as JSON.',
    details: 'A block also by one of the words latest (or final: the newest indexed) and sealed.',
    positionals: `${getKinds.join('|')} <id, height or address>`,
    maxPositionals: 2,
    words: getKinds,
    settings: daemonAddressSettings,
    ownFlags: getFlags,
    load: async () => (await import('./commands/get.js')).get,
  },
  {
    ...none,
    name: 'explain',
    summary: 'Explain why a height or ID is present or missing.',
    details:
      'Tells more of a running daemon: what is missing, who was asked for it, when, and what they said.\n' +
      'Exit code 0: explained. Exit code 66: nothing that is indexed or worked on has this ID.',
    positionals: '<height|id>',
    maxPositionals: 1,
    settings: daemonAddressSettings,
    ownFlags: explainFlags,
    load: async () => (await import('./commands/explain.js')).explain,
  },
  {
    ...none,
    name: 'export',
    summary: 'Write blocks and their transactions as lines of JSON.',
    details:
      'One line per block, one per transaction, and a closing line with counts and the SHA-256 of all lines above it: ' +
      'what head -n -1 FILE | sha256sum prints. docs/command-line.md shows them. Progress goes to standard error.',
    settings: daemonAddressSettings,
    ownFlags: exportFlags,
    load: async () => (await import('./commands/exportBlocks.js')).exportBlocks,
  },
  {
    ...none,
    name: 'verify',
    summary: 'Re-hash everything in the store and check that nothing is missing, wrong or too much.',
    details:
      'Exit code 0: all is well. Exit code 65: there are problems, each on a line with the heights that it affects. ' +
      'No daemon may be running.',
    settings: storeSettings,
    ownFlags: verifyFlags,
    load: async () => (await import('./commands/verify.js')).verify,
  },
  {
    ...none,
    name: 'repair',
    summary: 'Keep what is sound of a damaged store. No daemon may be running on it.',
    details:
      'Keeps every height below the lowest damaged one and forgets the others, which the daemon fetches again. Without --yes ' +
      'it changes nothing and says what can be kept.\n' +
      'Exit code 0: repaired, or nothing to repair. Exit code 65: there is damage, and --yes was not given.',
    settings: storeSettings,
    ownFlags: repairFlags,
    load: async () => (await import('./commands/repair.js')).repair,
  },
  {
    ...none,
    name: 'rewind',
    summary: 'Forget everything above a height. No daemon may be running on the store.',
    settings: storeSettings,
    ownFlags: rewindFlags,
    load: async () => (await import('./commands/rewind.js')).rewind,
  },
  {
    ...none,
    name: 'forget',
    summary: 'Drop the account index of a store. No daemon may be running on it.',
    details:
      'Blocks, collections and transactions stay. A daemon that is started with --index-accounts builds the index anew. ' +
      'Ended on the way, it leaves a sound store: say it again to go on.',
    positionals: 'accounts',
    maxPositionals: 1,
    words: ['accounts'],
    settings: storeSettings,
    ownFlags: forgetFlags,
    load: async () => (await import('./commands/forget.js')).forget,
  },
  {
    ...none,
    name: 'config',
    summary: 'Show the effective configuration (print), validate it (check), or print the reference (docs).',
    positionals: configActions.join('|'),
    maxPositionals: 1,
    words: configActions,
    settings: daemonSettings,
    load: async () => (await import('./commands/config.js')).config,
  },
  {
    ...none,
    name: 'devnet',
    summary: 'Run the simulated access node: a seeded chain over real gRPC.',
    details:
      'Any Flow client can talk to it. The same seed and profile give the same chain on every machine (docs/devnet.md).',
    ownFlags: devnetSettings,
    load: async () => (await import('./commands/devnet.js')).devnet,
  },
  {
    ...none,
    name: 'completion',
    summary: 'Print a script that completes commands and flags in a shell.',
    details:
      'bash: source <(flow-collection-indexer completion bash)\n' +
      'zsh: source <(flow-collection-indexer completion zsh)\n' +
      'fish: source (flow-collection-indexer completion fish | psub)',
    positionals: shells.join('|'),
    maxPositionals: 1,
    words: shells,
    load: async () => (await import('./completion.js')).completion,
  },
];
