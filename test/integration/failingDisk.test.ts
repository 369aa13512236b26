import { expect, it } from 'vitest';
import { throughPort } from '../disk/failingPort.js';

it.each([
  ['No space left on device', /The disk is full\. Free some space/],
  ['Disk quota exceeded', /The disk is full\. Free some space/],
  ['Read-only file system', /mounted read-only\. Remount it writable/],
  ['Permission denied', /This user may not write there/],
  ['Too many open files', /The limit of open files is too low\. Raise it/],
  ['Input/output error', /The device or the file system failed/],
])('%s: says what to do, writes nothing on top, and loses nothing', async (fault, says) => {
  expect(await throughPort(fault, says)).toMatchObject({ outcome: 'stopped, went on' });
});
