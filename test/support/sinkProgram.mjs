// A program for `export --exec`: keeps the lines of whole blocks in a file, synced before they are acknowledged.
// What it has already is dropped; what a crash has torn is cut off. Arguments: the file, and how many blocks it
// takes before it dies (default: it does not).
import { Buffer } from 'node:buffer';
import process from 'node:process';
import { closeSync, existsSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [path = '', dies = 'Infinity'] = process.argv.slice(2);
const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
const file = openSync(path, 'a');
/** Of each whole block: its height, and where it ends. */
const blocks = [];
let end = 0;
let begun;
const counted = ({ collections }) => collections.reduce((sum, { transaction_count: n }) => sum + n, 0);
for (let at = 0; at < text.length;) {
  const next = text.indexOf('\n', at) + 1;
  if (next === 0) break;
  const line = JSON.parse(text.slice(at, next));
  if (line.kind === 'block') begun = { height: line.height, missing: counted(line) };
  else begun.missing -= 1;
  at = next;
  if (begun.missing === 0) {
    end = Buffer.byteLength(text.slice(0, at));
    blocks.push({ height: begun.height, end });
  }
}
ftruncateSync(file, end);

let left = Number(dies);
let held = [];
let missing = 0;
let height = 0;
const acknowledge = (at) => process.stdout.write(`${at}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const value = JSON.parse(line);
  if (value.kind === 'rewind') {
    while ((blocks.at(-1)?.height ?? -1) > value.height) blocks.pop();
    end = blocks.at(-1)?.end ?? 0;
    ftruncateSync(file, end);
    fsyncSync(file);
    acknowledge(value.height);
    continue;
  }
  if (value.kind === 'block') {
    ({ height } = value);
    missing = counted(value);
  } else missing -= 1;
  held.push(`${line}\n`);
  if (missing > 0) continue;
  const bytes = Buffer.from(held.join(''));
  held = [];
  if (height > (blocks.at(-1)?.height ?? -1)) {
    if (left <= 0) {
      // In the middle of a write.
      writeSync(file, bytes, 0, Math.ceil(bytes.length / 2));
      process.kill(process.pid, 'SIGKILL');
    }
    left -= 1;
    writeSync(file, bytes);
    fsyncSync(file);
    end += bytes.length;
    blocks.push({ height, end });
  }
  acknowledge(height);
}
closeSync(file);
