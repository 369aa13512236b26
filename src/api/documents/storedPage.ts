import type { SporkRecord, WholeBlock } from '../../storage/index.js';
import * as t from '../schema.js';
import type { ReadableIndex } from '../view/IndexView.js';
import { pageOf } from './exportPage.js';
import type { ExportRange } from './exportPage.js';

const base64 = t.note('As stored, in base64: a protobuf message.', t.text);

const sporksLine = t.named(
  'StoredSporks',
  t.object({
    kind: t.words('sporks'),
    sporks: t.note(
      'All that are recorded, in ascending order.',
      t.arrayOf(
        t.object({
          root_height: t.count,
          spork_id: t.note('Hex; empty where none was told.', t.text),
          root_parent_id: t.note(
            'The parent that the root names, where the network’s table vouches for it.',
            t.orNull(t.text),
          ),
        }),
      ),
    ),
  }),
);

const storedLine = t.named(
  'StoredBlock',
  t.object({
    kind: t.words('stored'),
    height: t.count,
    block: base64,
    collections: t.note(
      'In guarantee order, each a list of transactions: repeated Transaction transactions = 1.',
      t.arrayOf(base64),
    ),
  }),
);
export type StoredSporks = t.Described<typeof sporksLine>;
export type StoredLine = t.Described<typeof storedLine>;
export const storedPageLine = t.named('StoredPageLine', t.oneOf(sporksLine, storedLine));

/**
 * Blocks with all their bytes, for clients that keep their own index: a line with the sporks, then a line for each block. Pages
 * end like those of `exportPage`. Expected errors: `StorageError`.
 */
export async function storedPage(reader: ReadableIndex, range: ExportRange): Promise<string> {
  const sporks: StoredSporks = { kind: 'sporks', sporks: (reader.meta()?.sporks ?? []).map(sporkOf) };
  return `${JSON.stringify(sporks)}\n${await pageOf(reader, range, blockLine)}`;
}

function sporkOf({
  rootHeight: root_height,
  sporkId: spork_id,
  rootParentId,
}: SporkRecord): StoredSporks['sporks'][number] {
  return { root_height, spork_id, root_parent_id: rootParentId ?? null };
}

function blockLine({ block, collections }: WholeBlock): string {
  const { encoded, height } = block;
  const line: StoredLine = {
    ...{ kind: 'stored', height, block: textOf(encoded) },
    collections: collections.map((each) => textOf(each.encoded)),
  };
  return `${JSON.stringify(line)}\n`;
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
