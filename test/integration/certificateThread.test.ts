import { expect, it } from 'vitest';
import { certificateThread } from '../../src/proof/index.js';
import { certificateIn } from '../../src/proof/certificates/provenFinal.js';
import { recordedBlocks, recordedSnapshot } from '../support/proofData.js';
import { certificatesStarter } from '../../src/app/threads/startWorker.js';

const blocks = recordedBlocks();

/** On the thread of the test: every daemon of test/e2e that proves something. */
it('the thread that verifies certificates, as built, reads who signs, and verifies what they signed', async () => {
  const thread = certificateThread(certificatesStarter());
  const [first, last] = [blocks[0]!, blocks.find(({ height }) => height === 52)!];
  const snapshot = Buffer.from(JSON.stringify(recordedSnapshot()));
  const reading = await thread.readState(snapshot, first.protocolStateId);
  if (!reading.ok) throw new Error(reading.reason);
  const { committee } = reading.state.current;
  const verdict = await thread.verify(certificateIn(last), committee);
  expect(verdict).toEqual({ valid: true, signers: 2, weight: 200, threshold: 134 });
  const moved = { ...certificateIn(last), view: last.view };
  expect(await thread.verify(moved, committee)).toMatchObject({ valid: false });
  for (const junk of ['', '{"SealingSegment":', '[]'])
    expect(await thread.readState(Buffer.from(junk), first.protocolStateId)).toMatchObject({ ok: false });
  thread.close();
});
