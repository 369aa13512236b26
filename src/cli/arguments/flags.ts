import type { LookupKind } from '../../api/index.js';
import { block, boolean, choice, daemonSettings, integer, localPath } from '../../config/index.js';
import { MAX_HEIGHT, optional, setting, text } from '../../config/index.js';
import type { Format, Setting, Settings, ValuesOf } from '../../config/index.js';

export const storeSettings = {
  network: daemonSettings.network,
  dataDir: daemonSettings.dataDir,
  store: daemonSettings.store,
} satisfies Settings;

export const daemonAddressSettings = {
  ...storeSettings,
  'api.host': daemonSettings['api.host'],
  'api.port': daemonSettings['api.port'],
  'api.tls.certificateFile': daemonSettings['api.tls.certificateFile'],
  'api.tokensFile': daemonSettings['api.tokensFile'],
} satisfies Settings;

function toggle(doc: string): Setting<boolean> {
  return setting(boolean, false, { doc });
}

function height(doc: string, defaultDoc: string): Setting<number | null> {
  return optional(integer(0, MAX_HEIGHT, 'height'), { doc, defaultDoc });
}

/** Any text, checked where it is used. `allowed`: what shells complete. */
function word(doc: string, value: string, defaultDoc: string, allowed = 'a text'): Setting<string | null> {
  return optional(text(allowed, value), { doc, defaultDoc });
}

/** Where to write; `-` is standard output, as it is for other programs. */
function output(doc: string, path: Format<string>): Setting<string | null> {
  const coerce = (given: string): string | null => (given === '-' ? null : given);
  return optional({ ...path, coerce }, { doc, defaultDoc: 'standard output' });
}

/** A store of either kind. */
function anyStore(doc: string): Setting<string | null> {
  const path = localPath('directory', 'store');
  // `migrate` itself reports what it cannot copy from or to.
  const accepts = (given: unknown): given is string =>
    path.accepts(given) || /^(?:postgres(?:ql)?|https?):/.test(String(given));
  const allowed = `${path.allowed}, or postgres://HOST/DATABASE`;
  return optional({ ...path, allowed, accepts }, { doc, defaultDoc: 'required' });
}

export const statusFlags = {
  watch: toggle('Update every second: a live page on a terminal (q quits), otherwise a line each time.'),
  json: toggle('Print the daemon’s status as JSON, one document per line.'),
} as const;

export const doctorFlags = { json: toggle('Print one JSON document.') } as const;

export const explainFlags = { json: toggle('Print the JSON document of /explain.') } as const;

/** What `get` looks up: something by id or height, or an account's transactions. */
export const ACCOUNT = 'account';
export const getKinds = ['block', 'collection', 'transaction', ACCOUNT] as const satisfies readonly (
  LookupKind | typeof ACCOUNT
)[];

export const getFlags = {
  role: word('For an account: only as payer, proposer or authorizer.', 'role', 'every role'),
  limit: word('For an account: transactions per page, up to 50.', 'transactions', '20'),
  cursor: word('For an account: next_cursor of the previous page.', 'cursor', 'the newest'),
} as const;

export const proveFlags = {
  output: output('Where to write the document.', localPath('file', 'file')),
  to: height(
    'Height of the block whose ID is trusted, up to 999 above the block in question.',
    'none: the proof ends by a certificate, or if that cannot be, at the block itself',
  ),
} as const;

export const checkProofFlags = {
  checkpoint: optional(block, {
    doc: 'The block that you trust, from which all must follow.',
    defaultDoc: 'none: the block is printed, to be compared',
  }),
} as const;

export const fileFormats = ['ndjson', 'csv', 'parquet'] as const;
export type FileFormat = (typeof fileFormats)[number];

export const compressions = ['none', 'gzip', 'zstd'] as const;
export type Compression = (typeof compressions)[number];

export const DEFAULT_PARTITION = 100_000;

export const exportFlags = {
  from: height('First height.', 'the first that is indexed; with --resume, that of the file'),
  to: height('Last height.', 'the latest that is indexed; with --follow, none'),
  finality: setting(choice(['reported', 'proven']), 'reported', {
    doc: 'proven: only heights that are proven final. Needs a running daemon.',
  }),
  output: output(
    'File to write to; a directory with --partition, --compress, another format, or some of the rows or columns.',
    localPath('file or directory', 'file or directory'),
  ),
  format: setting(choice(fileFormats), 'ndjson', { doc: 'Format of the files (docs/export.md).' }),
  partition: optional(integer(1, MAX_HEIGHT, 'heights'), {
    doc: 'Begin new files at every multiple of this many heights; --resume continues from the last such boundary.',
    defaultDoc: `${DEFAULT_PARTITION} for a directory`,
  }),
  compress: optional(choice(compressions), {
    doc: 'How files, or pages of Parquet, are compressed.',
    defaultDoc: 'gzip for parquet, else none',
  }),
  account: word('Only transactions of this account.', 'address', 'every account'),
  role: word('With --account: only as payer, proposer or authorizer.', 'role', 'every role'),
  columns: word(
    'Only these columns, separated by commas: of transactions (id), of other tables (blocks.id), whole tables (blocks.*).',
    'names',
    'all',
  ),
  scripts: setting(boolean, true, { doc: 'With the scripts of transactions.' }),
  resume: toggle('Resume a file or a directory that was cut off.'),
  follow: toggle('Keep exporting new heights until a signal ends it. Needs a running daemon.'),
  quiet: toggle('Do not show progress.'),
} as const;

export type ExportFlags = ValuesOf<typeof exportFlags>;

export const verifyFlags = {
  from: height('First height to check.', 'the first of the store'),
  to: height('Last height to check.', 'the last of the store'),
} as const;

/** The flags of repair and forget. */
export const confirmFlags = { yes: toggle('Skip the confirmation.') } as const;

export const rewindFlags = {
  to: height('Keep this height and everything below it; delete the rest.', 'required'),
  ...confirmFlags,
} as const;

export const backupFlags = {
  to: optional(localPath('directory', 'directory'), {
    doc: 'Directory to create, laid out like a data directory.',
    defaultDoc: 'required',
  }),
} as const;

export const restoreFlags = {
  from: word(
    'Directory that backup made, or the http(s) URL of a tar archive of it.',
    'directory or URL',
    'required',
  ),
  quiet: toggle('Do not show progress.'),
} as const;

export const migrateFlags = {
  from: anyStore('Store to copy: a data directory, or postgres://HOST/DATABASE.'),
  to: anyStore('Store to copy to. Created if it does not exist.'),
  quiet: toggle('Do not show progress.'),
} as const;

export const backfillActions = ['status', 'plan', 'pause', 'resume', 'cancel', 'redrive', 'kill'] as const;

export const workersFlags = { json: toggle('Print JSON.') } as const;

export const backfillFlags = {
  from: word(
    'plan: first height: a number, root (of the live spork) or spork:NAME (its root).',
    'height',
    'required',
  ),
  to: height('plan: the last height.', 'the height below the live range'),
  everything: toggle('plan: start at the lowest height that any node serves.'),
  newest: toggle('plan: fill in the newest heights first. The default.'),
  oldest: toggle('plan: fill in the oldest heights first.'),
  json: toggle('Print JSON.'),
} as const;

export const configActions = ['print', 'check', 'docs'] as const;
export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];
/** Makes `completion` write the script rather than print it. */
export const INSTALL = 'install';
/** The function that completes; for zsh also the name of the file that it is loaded from. */
export const COMPLETION_FUNCTION = '_flow_collection_indexer';

export const completionFlags = {
  system: toggle('install: for every user of this machine, below /usr/local/share.'),
} as const;
