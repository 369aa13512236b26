// A program of Flow's SDK: `node sdkProgram.mjs API_URL HEIGHT` prints the id of the block.
import process from 'node:process';
import { atBlockHeight, config, decode, getBlock, send } from '@onflow/sdk';

const [, , apiUrl, height = '0'] = process.argv;
config({ 'accessNode.api': apiUrl });
const { id } = await decode(await send([getBlock(), atBlockHeight(Number(height))]));
process.stdout.write(`${id}\n`);
process.exit(0);
