import type { WholeBlock } from '../../storage/index.js';
import * as t from '../schema.js';
import type { ReadableIndex } from '../view/IndexView.js';
import { pageOf } from './exportPage.js';
import type { ExportRange } from './exportPage.js';

const base64 = t.note('As stored, in base64: a protobuf message.', t.text);

export const storedLine = t.named(
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
export type StoredLine = t.Described<typeof storedLine>;

/**
 * Blocks with all their bytes, for clients that keep their own index: a line for each. Pages end like those of `exportPage`.
 * Expected errors: `StorageError`.
 */
export function storedPage(reader: ReadableIndex, range: ExportRange): Promise<string> {
  return pageOf(reader, range, blockLine);
}

function blockLine({ block, collections }: WholeBlock): string {
  const { encoded, height } = block;
  const line: StoredLine = {
    kind: 'stored',
    height,
    block: textOf(encoded),
    collections: collections.map((each) => textOf(each.encoded)),
  };
  return `${JSON.stringify(line)}\n`;
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
