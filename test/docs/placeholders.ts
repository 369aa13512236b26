/** What stands in the pages for a reader's own values, and values of the right shape. */
const shapes: Readonly<Record<string, string>> = {
  NODE: 'node:9000',
  HEIGHT: '120',
  ID_OR_HEIGHT: '120',
  BLOCK_ID: 'b'.repeat(64),
  COLLECTION_ID: 'c'.repeat(64),
  TRANSACTION_ID: 'd'.repeat(64),
  ADDRESS: 'f8d6e0586b0a20c7',
  FILE: 'file.ndjson',
  DATABASE: 'flow.db',
  DIR: './copy',
  $STORE: 'postgres://indexer@db.example.org/flow',
};

/** Fills values in for the placeholders of a word or an address; ids first, since one name may begin with another. */
export function fill(text: string): string {
  let filled = text;
  for (const [name, value] of Object.entries(shapes)) {
    const pattern = new RegExp(`(?<![A-Z_])${name.replace('$', '\\$')}(?![A-Z_])`, 'g');
    filled = filled.replaceAll(pattern, () => value);
  }
  return filled;
}
