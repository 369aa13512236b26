/**
 * Recomputes the ids of the blocks of a root snapshot, or of one block in JSON, as flow-go writes them, and says what they
 * prove: `npx tsx scripts/proveBlockIds.ts FILE`, where FILE may be gzipped. Exits with 1 if a block is not proven.
 */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { BlockProver, checkStoredProof } from '../src/proof/index.js';
import { fullBlockMessage } from '../test/support/blockMessage.js';
import { sealedBlock, type Json, type ReferenceBlock } from '../test/support/proofReference.js';

const [file = ''] = process.argv.slice(2);
const read = readFileSync(file);
const json = JSON.parse((file.endsWith('.gz') ? gunzipSync(read) : read).toString()) as Json;

for (const { header, payload } of blocksOf(json)) {
  const chainId = String(header['ChainID']);
  const proving = new BlockProver({ chainId }).prove(fullBlockMessage({ header, payload }));
  const title = `${chainId} ${String(header['Height'])} ${String(header['ID'])}`;
  if (proving.kind === 'proven') {
    const { form, block, proof } = proving;
    const holds = checkStoredProof(block.encoded, proof, chainId) !== undefined;
    process.stdout.write(
      `${title}: proven, ${form}; ${proof.length} bytes of proof ${holds ? 'hold' : 'do not hold'}\n`,
    );
    if (holds) continue;
  } else {
    process.stdout.write(`${title}: ${JSON.stringify(proving)}\n`);
  }
  process.exitCode = 1;
}

/** The blocks of a snapshot of any version, or the one block that the file is. */
function blocksOf(snapshot: Json): ReferenceBlock[] {
  const segment = (snapshot['SealingSegment'] ?? snapshot['sealingSegment']) as Json | undefined;
  const blocks = (segment?.['Blocks'] ?? [snapshot]) as readonly Json[];
  return blocks.map((each) => {
    const block = (each['Block'] ?? each) as Json;
    const header = (block['Header'] ?? block['header']) as Json | undefined;
    const payload = (block['Payload'] ?? block['payload']) as Json;
    return header === undefined ? withPayloadHash(block, payload) : { header, payload };
  });
}

/** Today's snapshots leave the payload hash out: the second implementation finds it, if the id is right. */
function withPayloadHash(block: Json, payload: Json): ReferenceBlock {
  const receipts = (payload['Receipts'] ?? []) as readonly { readonly ResultID: string }[];
  const count = ((payload['Results'] ?? []) as readonly unknown[]).length;
  const ids = [...new Set(receipts.map(({ ResultID }) => ResultID))];
  const header = { ...block, LastViewTC: block['LastViewTC'] ?? undefined };
  for (let choice = 0; choice < 1 << ids.length; choice++) {
    const chosen = ids.filter((_, index) => ((choice >> index) & 1) === 1);
    if (chosen.length !== count) continue;
    const sealed = sealedBlock('H8P8', { header, payload }, chosen);
    if (sealed.header['ID'] === block['ID']) return sealed;
  }
  return { header, payload };
}
