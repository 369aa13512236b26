import { createHash } from 'node:crypto';

/** Version of the manifest and of what the files hold: raised when an older reader would misread them. */
const FORMAT = 1;

/** What an export was asked for. Only an export that asks for the same can continue it. */
export interface ExportShape {
  readonly chain_id: string;
  /** The first height. */
  readonly from: number;
  readonly file_format: string;
  readonly compression: string;
  /** Heights of a partition; partitions begin at multiples of it. */
  readonly partition: number;
  /** Only transactions of this account; null for all. */
  readonly account: string | null;
  readonly role: string | null;
  readonly scripts: boolean;
  /** The columns of each table; null for lines of JSON as `export` writes them without `--columns`. */
  readonly columns: Readonly<Record<string, readonly string[]>> | null;
}

export interface ManifestFile {
  readonly table: string;
  /** From the directory of the manifest. */
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** A range of heights whose files are complete. */
export interface Partition {
  readonly from: number;
  readonly to: number;
  readonly last_block_id: string;
  /** Blocks in the range, even if only some of their rows are exported. */
  readonly blocks: number;
  readonly transactions: number;
  readonly files: readonly ManifestFile[];
}

export interface Manifest extends ExportShape {
  readonly format: number;
  readonly program: string;
  /** Below `from` while there is no partition. */
  readonly to: number;
  readonly files: number;
  readonly rows: Readonly<Record<string, number>>;
  readonly bytes: number;
  /** Over a line for each file: its digest, two spaces, its path; as `sha256sum` prints them. */
  readonly sha256: string;
  readonly partitions: readonly Partition[];
}

/** The manifest depends only on the partitions, not on when they were written. */
export function manifestOf(shape: ExportShape, program: string, partitions: readonly Partition[]): Manifest {
  const files = partitions.flatMap((partition) => partition.files);
  const rows: Record<string, number> = {};
  for (const file of files) rows[file.table] = (rows[file.table] ?? 0) + file.rows;
  const sums = files.map(({ sha256, path }) => `${sha256}  ${path}\n`).join('');
  return {
    format: FORMAT,
    program,
    ...shape,
    to: partitions.at(-1)?.to ?? shape.from - 1,
    files: files.length,
    rows,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    sha256: createHash('sha256').update(sums).digest('hex'),
    partitions,
  };
}

/** `undefined` if the text is not a manifest that this version can continue. */
export function parseManifest(text: string): Manifest | undefined {
  try {
    const found = JSON.parse(text) as Partial<Manifest> | null;
    return found?.format === FORMAT && Array.isArray(found.partitions) ? (found as Manifest) : undefined;
  } catch {
    return undefined;
  }
}

/** The first flag in which two exports differ; `undefined` when they are the same. */
export function differenceOf(begun: ExportShape, asked: ExportShape): string | undefined {
  const flags = [
    ['file_format', '--format'],
    ['compression', '--compress'],
    ['partition', '--partition'],
    ['account', '--account'],
    ['role', '--role'],
    ['scripts', '--scripts'],
    ['columns', '--columns'],
    ['from', '--from'],
  ] as const;
  for (const [key, flag] of flags) {
    const [was, is] = [begun[key], asked[key]].map((value) => JSON.stringify(value));
    if (was !== is) return `It was begun with ${flag} ${was}, not ${is}`;
  }
  return undefined;
}
